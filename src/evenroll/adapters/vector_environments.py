"""Any environment as lanes that run side by side: one Gymnasium env, a vector env in any autoreset mode, SB3's VecEnv.

Who resets a lane that has ended depends on the environment. We do it for a single env and in the mode DISABLED. The
environment does it in the same step in the mode SAME_STEP and in SB3. In the mode NEXT_STEP it does it in the next step, in
which the lane's action is ignored; until then the lane is `idle`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.adapters.start_seeds import lane_number, start_seed
from evenroll.errors import SpecError


@dataclass
class Step:
    """What a step of all lanes brought.

    last  for each lane whose trajectory has ended, the observation that it ended with
    """

    observations: Any
    rewards: Any
    terminated: np.ndarray
    truncated: np.ndarray
    last: Any
    infos: list[dict[str, Any]]


class VectorLanes:
    """A Gymnasium vector environment, or something that behaves as one (SuperSuit's are no subclasses of Gymnasium's)."""

    def __init__(self, env: Any) -> None:
        self.env, self.n = env, int(env.num_envs)
        self.observation_space = getattr(env, "single_observation_space", env.observation_space)
        self.action_space = getattr(env, "single_action_space", env.action_space)
        mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
        if mode is None:
            mode = "NextStep" if isinstance(env, gym.vector.VectorEnv) and not _is_supersuit(env) else "SameStep"
        self.mode = str(getattr(mode, "value", mode))
        self.idle = np.zeros(self.n, dtype=bool)
        self.info: Any = {}  # what came with the observations that are acted on next

    def reset(self, seed: int, already: int) -> Any:
        """Start every lane anew, where `already` starts have been used, which must not come again."""
        self.idle[:] = False
        observations, self.info = self._reset(seed, already)
        return observations

    def _reset(self, seed: int, already: int) -> Any:
        seeds = [start_seed(seed, lane_number(lane, self.n, already)) for lane in range(self.n)]
        # A vector by itself takes one number, which ALE's wants to have 31 bits.
        for given in (seeds, seeds[0]):
            try:
                return self.env.reset(seed=given)
            except (gym.error.Error, TypeError, ValueError, AssertionError):
                continue
        return self.env.reset(seed=_first_of_a_range(seed, self.n, already))

    def step(self, actions: Any) -> Step:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        terminated, truncated = np.asarray(terminated, dtype=bool), np.asarray(truncated, dtype=bool)
        done = terminated | truncated
        self.info = infos
        if isinstance(infos, list | tuple):  # SuperSuit has a dictionary for each lane, with Stable-Baselines3's key
            ends = [info.get("terminal_observation", o) for info, o in zip(infos, observations, strict=True)]
            return Step(observations, rewards, terminated, truncated, ends, list(infos))
        last: Any = observations
        last_infos = infos
        if self.mode == "NextStep":
            self.idle = done & ~self.idle
        elif done.any():
            if self.mode == "SameStep":
                last, last_infos = infos.get("final_obs", observations), infos.get("final_info", infos)
            else:
                last = copy.deepcopy(observations)  # the reset may write into the same array
                observations, begun = self.env.reset(options={"reset_mask": done})
                self.info = _of_those(done, begun, infos)
        return Step(observations, rewards, terminated, truncated, last, unpack(last_infos, self.n, done))


class SB3Lanes:
    """A vector environment of Stable-Baselines3, which resets a lane in the step that ends it."""

    def __init__(self, env: Any) -> None:
        self.env, self.n = env, int(env.num_envs)
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.idle = np.zeros(self.n, dtype=bool)
        self.info: Any = []  # what came with the observations that are acted on next, for each lane

    def reset(self, seed: int, already: int) -> Any:
        """Start every lane anew, where `already` starts have been used, which must not come again.

        Stable-Baselines3 adds a lane's number to the seed. So every reset gets a range of seeds of its own.
        """
        first = start_seed(seed, 0) % 2**31 + already * self.n
        try:
            self.env.seed(first)
        except AttributeError:  # SuperSuit's cannot be seeded, but what it wraps can, and goes on from there
            self.env.unwrapped.reset(seed=first)
        observations = self.env.reset()
        self.info = getattr(self.env, "reset_infos", [])
        return observations

    def step(self, actions: Any) -> Step:
        observations, rewards, dones, infos = self.env.step(actions)
        begun = getattr(self.env, "reset_infos", infos)
        self.info = [new if over else info for info, new, over in zip(infos, begun, dones, strict=True)]
        truncated = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        last = [info.get("terminal_observation") for info in infos]  # there wherever a lane has ended
        return Step(observations, rewards, dones & ~truncated, dones & truncated, last, list(infos))


def _of_those(done: np.ndarray, begun: dict[str, Any], infos: dict[str, Any]) -> dict[str, Any]:
    """The arrays in `infos`, with the entries of `begun` in the lanes that have begun anew."""
    merged = dict(infos)
    for key, value in begun.items():
        if key in infos and np.shape(value)[:1] == done.shape and np.shape(infos[key]) == np.shape(value):
            merged[key] = np.where(done.reshape(-1, *[1] * (np.ndim(value) - 1)), value, infos[key])
    return merged


def unpack(infos: dict[str, Any], n: int, wanted: np.ndarray) -> list[dict[str, Any]]:
    """Gymnasium's dictionary of arrays as one dictionary for each wanted lane. `_key` says in which lanes `key` counts."""
    result: list[dict[str, Any]] = [{} for _ in range(n)]
    for lane in np.flatnonzero(wanted):
        for key, value in infos.items():
            if not key.startswith("_") and np.ndim(value) and len(value) == n and infos.get(f"_{key}", wanted)[lane]:
                result[lane][key] = value[lane]
    return result


def is_sb3(env: Any) -> bool:
    return any(kind.__module__.startswith("stable_baselines3.common.vec_env") for kind in type(env).__mro__)


def as_lanes(env: Any) -> VectorLanes | SB3Lanes | None:
    """The lanes of a vector environment, or None for a single environment."""
    if is_sb3(env):
        return SB3Lanes(env)
    if isinstance(env, gym.vector.VectorEnv) or _is_vector(env):
        return VectorLanes(env)
    if isinstance(env, gym.Env):
        return None
    if hasattr(env, "possible_agents"):
        raise SpecError(
            f"{type(env).__name__} is a PettingZoo environment: wrap a parallel one in "
            "supersuit.pettingzoo_env_to_vec_env_v1(env), whose lanes are its agents (one of turns first in "
            "pettingzoo.utils.turn_based_aec_to_parallel(env))"
        )
    raise SpecError(
        f"a {type(env).__name__} is no environment: give a Gymnasium env or vector env, an id of one such as "
        "'CartPole-v1', or a function that makes one"
    )


def _is_vector(env: Any) -> bool:
    """Whether something that Gymnasium does not know behaves as a vector environment."""
    wanted = ("num_envs", "reset", "step", "observation_space", "action_space")
    return not isinstance(env, gym.Env | type) and all(hasattr(env, name) for name in wanted)


def _is_supersuit(env: Any) -> bool:
    """SuperSuit's vector environments reset a lane in the step that ends it, and do not say so."""
    return type(env).__module__.startswith("supersuit.")


def spaces_of(env: Any) -> tuple[gym.Space[Any], gym.Space[Any]]:
    """(observation space, action space) of one lane."""
    lanes = as_lanes(env)
    owner = env if lanes is None else lanes
    return owner.observation_space, owner.action_space


def _first_of_a_range(seed: int, lanes: int, already: int) -> int:
    """A number of 31 bits. It and the next ones, one for each lane, belong to no other reset of the run."""
    return (start_seed(seed, 0) % 2**30 + already * lanes) % (2**31 - lanes)


def shares(episodes: int, n: int) -> np.ndarray:
    """How many episodes each lane contributes, fixed beforehand: were it first come, short episodes would be favoured."""
    return np.array([(episodes + lane) // n for lane in range(n)])
