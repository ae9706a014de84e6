"""What the command line names: domains, environments and policies by id, file or `module:name`. Data files name nothing."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import PurePath
from typing import Any

import gymnasium as gym

from evenroll.adapters.normalization import Normalization
from evenroll.adapters.sb3_zip import load_sb3
from evenroll.adapters.surroundings import environment_name
from evenroll.adapters.vector_environments import spaces_of
from evenroll.domains.catalogue import DOMAINS, get_domain, parameters_of
from evenroll.domains.domain import Domain
from evenroll.errors import SpecError
from evenroll.policies import load_policy
from evenroll.text.names import called, is_named, named, split_spec
from evenroll.text.numbers import first_line
from evenroll.text.specs import closest, parse_parameters

FOR_ENVIRONMENTS = (
    "a study needs a domain, which runs compiled and whose true value can be found: "
    "for an environment use evaluate or difference, or write it as a Domain (CONTRIBUTING.md)"
)


def as_domain(domain: Any) -> Domain:
    """A domain, given as the object itself or by its name. Anything else is refused with a word on what to use instead."""
    if isinstance(domain, Domain):
        return domain
    if not isinstance(domain, str):
        raise SpecError(f"{environment_name(domain)} is not a domain; {FOR_ENVIRONMENTS}")
    loaded = load_domain(domain)
    if loaded is not None:
        return loaded
    name, _ = split_spec(domain, DOMAINS)
    if is_named(name):
        raise SpecError(f"{name} is no Domain and makes none; {FOR_ENVIRONMENTS}")
    raise SpecError(f"unknown domain {name!r}{closest(name, DOMAINS)}; known: {', '.join(DOMAINS)}; {FOR_ENVIRONMENTS}")


def load_domain(text: str) -> Domain | None:
    """A domain by name: a built-in one, or `module:name[:key=value,…]`, which is a Domain or a function that makes one.

    The result is None if the text names something else, such as an environment. A function whose annotation says that it
    returns something else is not called. A function without an annotation is called to see what it returns.
    """
    name, parameters = split_spec(text, DOMAINS)
    if name in DOMAINS:
        return get_domain(text)
    if not is_named(name):
        return None
    thing = named(name)
    if isinstance(thing, Domain):
        if parameters:
            raise SpecError(f"{text}: {name} is made already; name a function to give it parameters")
        return thing
    if not inspect.isroutine(thing) or not _may_return_domain(thing):
        return None
    values = parameters_of(thing, name, parameters)
    made = called(name, thing, **values)
    if isinstance(made, Domain):
        return dataclasses.replace(made, parameters={**made.parameters, **values})
    if hasattr(made, "close"):
        made.close()  # it is an environment; whoever wants it will make it again
    return None


def _may_return_domain(function: Any) -> bool:
    annotation = getattr(function, "__annotations__", {}).get("return", Any)
    return annotation in (Domain, Any) or (
        isinstance(annotation, str) and annotation.rpartition(".")[2] in ("Domain", "Any")
    )


def load_environment(text: str, lanes: int | None = None, normalization: Normalization | None = None) -> Any:
    """The environment that a text names (`make_environment`, or `module:function`); with `lanes`, that many side by side.

    normalization  the statistics that observations are normalised with before the policy sees them
    """

    def make() -> Any:
        made = _made_by_name(text)
        return made if normalization is None else normalization.around(made)

    if lanes is None:
        return make()
    first = make()
    spaces_of(first)  # report a bad name, or a thing that is no environment, before all of them are made
    first.close()
    return gym.vector.SyncVectorEnv([make] * lanes)


def _made_by_name(text: str) -> Any:
    name, parameters = split_spec(text, ())
    if not is_named(name):
        return make_environment(text)
    return called(name, named(name), **_values(text, parameters))


def as_environment(thing: Any) -> Any:
    """The environment itself, or the one that a text, an EnvSpec, a class or a function makes."""
    if isinstance(thing, str):
        return make_environment(thing)
    if isinstance(thing, gym.envs.registration.EnvSpec):
        return _made(thing, thing.id, {})
    if isinstance(thing, type) or (callable(thing) and not hasattr(thing, "step")):
        name = getattr(thing, "__name__", type(thing).__name__)
        made = called(name, thing)
        spaces_of(made)  # raises if it is no environment
        return made
    return thing


def load_any_policy(text: str) -> Any:
    """A policy file of ours, a Stable-Baselines3 zip (read, not executed), or `module:function`.

    A function without parameters makes the policy, and so does a class that needs none. Any other object is the policy
    itself: a function of an observation that gives probabilities, a torch module, or a model.
    """
    if text.endswith(".zip"):
        return load_sb3(text)
    file, _, name = text.partition(":")
    if file.endswith(".py"):
        instead = f"{PurePath(file).stem}:{name or 'make_policy'}"
        raise SpecError(f"{text}: name what the file defines as module:function, for example --policy {instead}")
    if not is_named(text):
        return load_policy(text)
    thing = named(text)
    if inspect.isclass(thing):
        needed = [p.name for p in inspect.signature(thing).parameters.values() if p.default is p.empty and p.kind < 2]
        if needed:
            raise SpecError(
                f"{text} is a class, which needs {', '.join(needed)}: name a function without parameters that makes the "
                f"policy, such as `def make(): return {thing.__name__}(…)`"
            )
        return called(text, thing)
    if inspect.isfunction(thing) and not inspect.signature(thing).parameters:
        return called(text, thing)
    return thing


def make_environment(text: str) -> Any:
    """An environment by its Gymnasium id, with keyword arguments after a colon: `FrozenLake-v1:is_slippery=false`."""
    name, colon, parameters = text.rpartition(":")
    if not colon or "=" not in parameters:
        name, parameters = text, ""
    return _made(name, name, _values(text, parameters))


def _made(spec: Any, name: str, values: dict[str, Any]) -> Any:
    try:
        return gym.make(spec, **values)
    except Exception as error:  # Gymnasium's own errors, and whatever an environment raises when it is made
        if name in DOMAINS:
            raise SpecError(f"{name} is a built-in domain, and this takes a Gymnasium environment{_alike(name)}") from None
        said = first_line(error)
        near = "" if "did you mean" in said.lower() else closest(name, (*DOMAINS, *gym.registry))
        raise SpecError(f"no environment {name!r}{near}: {said} (built-in domains: {', '.join(DOMAINS)})") from None


def _alike(name: str) -> str:
    """The words ', such as …' if a domain is registered with Gymnasium, too."""
    listed = DOMAINS[name].gymnasium_id
    return "" if listed is None else f", such as {listed}"


def policyless(text: str) -> str:
    """What to say of a name that is no domain, and so has no policy of its own."""
    name, _ = split_spec(text, gym.registry)
    if name in gym.registry or is_named(name):
        return f"{name} has no policy of its own"
    return f"{name} is not a built-in domain{closest(name, (*DOMAINS, *gym.registry))}"


WORDS = {"true": True, "yes": True, "false": False, "no": False, "none": None}


def _values(text: str, parameters: str) -> dict[str, Any]:
    return {key: _value(value) for key, value in parse_parameters(text, parameters).items()}


def _value(text: str) -> Any:
    """What a word stands for: a truth value, None, a number, or the word itself."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
