"""What the command line names: environments and policies by id, file, or `module:function`. Never from a data file."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from evenroll.adapters.sb3_zip import load_sb3
from evenroll.adapters.vector_environments import spaces_of
from evenroll.domains.catalogue import DOMAINS
from evenroll.errors import EvenrollError, SpecError
from evenroll.policies import load_policy
from evenroll.text.numbers import first_line
from evenroll.text.specs import closest


def named(text: str) -> Any:
    """The object `module:name`; modules are also looked for in the current directory."""
    module, _, name = text.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise SpecError(f"cannot find {text!r}: {error}") from None
    except Exception as error:
        raise SpecError(f"{module} cannot be imported: {type(error).__name__}: {error}") from None
    return found


def called(text: str, function: Callable[[], Any]) -> Any:
    """What a function of the user's makes."""
    try:
        return function()
    except EvenrollError:
        raise
    except Exception as error:
        raise SpecError(f"{text} failed: {type(error).__name__}: {error}") from None


def is_named(text: str) -> bool:
    """module:function, not the module:Env-v0 of Gymnasium nor a path."""
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def load_environment(text: str, lanes: int | None = None) -> Any:
    """A Gymnasium id, or `module:function` that makes an environment; `lanes` of them side by side."""

    def make() -> Any:
        return called(text, named(text)) if is_named(text) else make_environment(text)

    if lanes is None:
        return make()
    first = make()
    spaces_of(first)  # a bad name, or what is no environment, is told before processes are started
    first.close()
    return gym.vector.SyncVectorEnv([make] * lanes)


def load_any_policy(text: str) -> Any:
    """A policy file of ours, a Stable-Baselines3 zip (read, not executed), or `module:function`.

    A function without parameters makes the policy; any other object is the policy: a function of an observation that gives
    probabilities, a torch module, a model.
    """
    if text.endswith(".zip"):
        return load_sb3(text)
    if not is_named(text):
        return load_policy(text)
    found = named(text)
    if inspect.isfunction(found) and not inspect.signature(found).parameters:
        return called(text, found)
    return found


def make_environment(name: str) -> Any:
    """An environment by its Gymnasium id."""
    try:
        return gym.make(name)
    except Exception as error:  # Gymnasium's own, and whatever an environment raises when it is made
        known = f"built-in domains: {', '.join(DOMAINS)}"
        raise SpecError(f"no environment {name!r}{closest(name, DOMAINS)}: {first_line(error)} ({known})") from None


def environment_name(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return str(spec.id) if spec is not None and getattr(spec, "id", None) else type(env).__name__
