"""A recipe: all that another process needs in order to collect episodes, as names, numbers and files of ours.

An environment travels as its id or as the name of a function that makes it. A policy travels as the bytes of a file that is
read and not run, or as the name of the user's function. Nothing is unpickled that a stranger could have written. Whoever
works by a recipe makes its things anew, and checks that the sources behind them are those of the process that asks.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.adapters.loading import load_any_policy, load_environment
from evenroll.adapters.model import Model, as_model
from evenroll.adapters.normalization import Normalization
from evenroll.adapters.vector_environments import as_lanes, spaces_of
from evenroll.errors import EvenrollError, PolicyError, SpecError
from evenroll.executors.fingerprint import fingerprint
from evenroll.files.safe_files import read_bytes
from evenroll.policies import Policy, load_policy
from evenroll.policies.policy_files import policy_bytes
from evenroll.samplers import Sampler
from evenroll.text.names import is_named, named

FORMAT = 1  # the version of a run's identity
MOST_MADE = 16  # environments, with their policies, that a worker keeps; a choice
LARGEST = 1 << 28  # the most bytes of a policy's file that are sent to workers
LIBRARIES = ("gymnasium", "torch", "stable-baselines3", "sb3-contrib")  # whose versions may change a number
OTHER_SOURCES = (
    "a worker runs another environment, policy, gymnasium or torch than this process: install the same lock file, and the "
    "same modules of yours"
)


@dataclass(frozen=True)
class PolicyFile:
    """A policy as the bytes of its file. `dtype` is the precision that a network of ours is run in."""

    name: str
    content: bytes = field(repr=False)
    dtype: str = "float32"

    def load(self) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / self.name
            path.write_bytes(self.content)
            return load_any_policy(str(path)) if self.name.endswith(".zip") else load_policy(path, self.dtype)


@dataclass(frozen=True, eq=False)
class Recipe:
    """What is collected, and how.

    environment  a Gymnasium id with its parameters, or `module:function`
    policy       a file, or `module:function`
    gamma        the discount of a step
    place        the place in the seed tree below which every episode has its stream
    starts       how many starts were used before the first episode
    keep         whether observations are kept; None keeps small ones
    """

    environment: str
    policy: PolicyFile | str
    sampler: Sampler
    gamma: float
    seed: int
    horizon: int | None
    deterministic: bool
    place: tuple[int, ...] = ()
    starts: int = 0
    keep: bool | None = None
    normalization: Normalization | None = None

    def make(self) -> Made:
        """The environment and the policy."""
        env = load_environment(self.environment, None, self.normalization)
        try:
            if as_lanes(env) is not None:
                raise SpecError(f"{self.environment} makes several environments at once: a worker runs one at a time")
            policy = load_any_policy(self.policy) if isinstance(self.policy, str) else self.policy.load()
            spaces = spaces_of(env)
            return Made(env, as_model(policy, *spaces, deterministic=self.deterministic), self.identity(env))
        except BaseException:
            env.close()
            raise

    def identity(self, env: Any) -> dict[str, Any]:
        """Everything that determines the episodes, and nothing that does not."""
        norm = self.normalization
        return {
            "format": FORMAT,
            "evenroll": fingerprint(),
            "libraries": _versions(),
            "environment": self.environment,
            "its sources": _sources(type(env.unwrapped).__module__, _module_of(self.environment)),
            "policy": self.policy if isinstance(self.policy, str) else _digest(self.policy.content, self.policy.dtype),
            "policy's sources": _sources(_module_of(self.policy)),
            "normalization": None if norm is None else _digest(norm.mean, norm.var, f"{norm.clip} {norm.epsilon}"),
            "sampler": repr(self.sampler),
            "gamma": self.gamma,
            "seed": self.seed,
            "horizon": self.horizon,
            "deterministic": self.deterministic,
            "place": list(self.place),
            "starts": self.starts,
            "keep": self.keep,
        }


@dataclass(frozen=True, eq=False)
class Made:
    """What a recipe has made."""

    env: Any
    model: Model
    identity: dict[str, Any]

    @functools.cached_property
    def key(self) -> str:
        return key_of(self.identity)


def key_of(identity: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


# ---- what the user gives -------------------------------------------------------------------------------------------


def environment_text(thing: Any) -> str:
    """The text by which workers make the environment; an object that is made already is refused."""
    if isinstance(thing, str):
        return thing
    if isinstance(thing, gym.envs.registration.EnvSpec) and not thing.kwargs and not thing.additional_wrappers:
        return thing.id
    if isinstance(thing, type) or (callable(thing) and not hasattr(thing, "step")):
        return _name_of(thing, "environment")
    raise SpecError(
        f"a {type(thing).__name__} that is made already cannot be sent to workers: give an id (CartPole-v1, "
        "FrozenLake-v1:is_slippery=false), or a function of a module that makes one"
    )


def policy_to_send(policy: Any) -> PolicyFile | str:
    """The policy as workers get it: a file, or the name of a function."""
    if policy is None:
        raise SpecError("an environment needs a policy")
    if isinstance(policy, Policy):
        return PolicyFile("policy.safetensors", policy_bytes(policy), str(policy.dtype))
    if isinstance(policy, str) and is_named(policy):
        return policy
    if isinstance(policy, str | Path):
        path = Path(policy)
        try:
            return PolicyFile(
                "policy.zip" if path.suffix == ".zip" else "policy.safetensors", read_bytes(path, LARGEST, PolicyError)
            )
        except PolicyError as error:
            raise PolicyError(f"{path.name}: {error}") from None
    if isinstance(policy, type) or (callable(policy) and hasattr(policy, "__qualname__")):
        return _name_of(policy, "policy")
    raise SpecError(
        f"a {type(policy).__name__} cannot be sent to workers: give a file (evenroll.save_policy, or Stable-Baselines3's "
        "model.zip), or the name of a function that makes it, 'module:function'"
    )


def _name_of(thing: Any, what: str) -> str:
    """`module:name` of a class or function that other processes can import."""
    text = f"{thing.__module__}:{thing.__qualname__}" if hasattr(thing, "__qualname__") else ""
    try:
        found = named(text) if is_named(text) and not text.startswith("__main__:") else None
    except EvenrollError:
        found = None
    if found is not thing:
        raise SpecError(
            f"workers import what makes the {what}: put the function at the top of a module of yours, and give it, or "
            "'module:function'"
        )
    return text


# ---- sources and versions ------------------------------------------------------------------------------------------


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = np.ascontiguousarray(part) if isinstance(part, np.ndarray) else part
        digest.update(data.encode() if isinstance(data, str) else bytes(data))
        digest.update(b"\n")
    return digest.hexdigest()


def _module_of(text: PolicyFile | str) -> str:
    return text.partition(":")[0] if isinstance(text, str) and ":" in text else ""


def _sources(*modules: str) -> str:
    """A digest of the files of these modules, as far as they have files."""
    paths = [getattr(sys.modules.get(name), "__file__", None) for name in modules]
    return _digest(*(Path(path).read_bytes() for path in paths if path is not None and Path(path).is_file()))


@functools.cache
def _versions() -> str:
    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


# ---- in a worker ---------------------------------------------------------------------------------------------------

# What the threads of this process have made, so that an environment is made once and not for every block. A worker is told
# the key of its recipe and nothing else of the blocks before, so this has to live as long as the process does. Policies that
# are compared take turns, so a thread keeps several; the one that was used last is the last.
_made: dict[tuple[int, str], Made] = {}
_making = threading.Lock()


def made_here(recipe: Recipe, key: str) -> Made:
    """What the recipe makes, made by this thread now or before. It is refused if its identity is another one here."""
    mine = threading.get_ident(), key
    found = _made.pop(mine, None)
    if found is not None:
        _made[mine] = found
        return found
    with _making:  # importing, probing a policy and compiling are done by one thread after the other
        others = [place for place in list(_made) if place[0] == mine[0]]
        for place in others[: len(others) + 1 - MOST_MADE]:
            _made.pop(place).env.close()
        made = recipe.make()
        if made.key != key:
            made.env.close()
            raise EvenrollError(OTHER_SOURCES)
        _made[mine] = made
    return made


def close_all(key: str) -> None:
    """Close what the threads of this process have made of a recipe."""
    with _making:
        for place in [place for place in list(_made) if place[1] == key]:
            _made.pop(place).env.close()
