"""Any environment as lanes that run side by side: one Gymnasium env, a vector env in any autoreset mode, SB3's VecEnv.

Who resets a lane that has ended depends on the environment. We do it for a single env and in the mode DISABLED. The
environment does it in the same step in the mode SAME_STEP and in SB3. In the mode NEXT_STEP it does it in the next step, in
which the lane's action is ignored; until then the lane is `idle`.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

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
    """A Gymnasium vector environment."""

    def __init__(self, env: Any) -> None:
        self.env, self.n = env, int(env.num_envs)
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space
        mode = env.metadata.get("autoreset_mode") or "NextStep"
        self.mode = str(getattr(mode, "value", mode))
        self.idle = np.zeros(self.n, dtype=bool)

    def reset(self, seed: int, already: int) -> Any:
        """Start every lane anew; `already` episodes are there, whose starts must not come again."""
        self.idle[:] = False
        try:
            return self.env.reset(seed=[episode_seed(seed, lane, already) for lane in range(self.n)])[0]
        except (gym.error.Error, TypeError, ValueError):  # an environment that is a vector by itself takes one number
            return self.env.reset(seed=episode_seed(seed, 0, already))[0]

    def step(self, actions: Any) -> Step:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        done = np.asarray(terminated) | np.asarray(truncated)
        last, last_infos = observations, infos
        if self.mode == "NextStep":
            self.idle = done & ~self.idle
        elif done.any():
            if self.mode == "SameStep":
                last, last_infos = infos.get("final_obs", observations), infos.get("final_info", infos)
            else:
                last = copy.deepcopy(observations)  # the reset may write into the same array
                observations, _ = self.env.reset(options={"reset_mask": done})
        return Step(observations, rewards, terminated, truncated, last, unpack(last_infos, self.n, done))


class SB3Lanes:
    """A vector environment of Stable-Baselines3, which resets a lane in the step that ends it."""

    def __init__(self, env: Any) -> None:
        self.env, self.n = env, int(env.num_envs)
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.idle = np.zeros(self.n, dtype=bool)
        _warn_of_normalisation(env)

    def reset(self, seed: int, already: int) -> Any:
        """Start every lane anew; `already` episodes are there, whose starts must not come again."""
        self.env.seed(episode_seed(seed, 0, already) % 2**31)
        return self.env.reset()

    def step(self, actions: Any) -> Step:
        observations, rewards, dones, infos = self.env.step(actions)
        truncated = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        last = [info.get("terminal_observation") for info in infos]  # there wherever a lane has ended
        return Step(observations, rewards, dones & ~truncated, dones & truncated, last, list(infos))


def _warn_of_normalisation(env: Any) -> None:
    """Warn where VecNormalize is set to what an evaluation may not want. Its settings are respected all the same."""
    while env is not None:
        if type(env).__name__ == "VecNormalize":
            if env.training:
                warnings.warn("VecNormalize still learns its statistics: set training = False", UserWarning, stacklevel=3)
            if env.norm_reward:
                warnings.warn(
                    "VecNormalize scales the rewards, and so the value: set norm_reward = False", UserWarning, stacklevel=3
                )
        env = getattr(env, "venv", None)


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
    if isinstance(env, gym.vector.VectorEnv):
        return VectorLanes(env)
    if isinstance(env, gym.Env):
        return None
    raise SpecError(f"a {type(env).__name__} is no environment: give a Gymnasium env or vector env, or an id of one")


def spaces_of(env: Any) -> tuple[gym.Space[Any], gym.Space[Any]]:
    """(observation space, action space) of one lane."""
    lanes = as_lanes(env)
    owner = env if lanes is None else lanes
    return owner.observation_space, owner.action_space


def episode_seed(seed: int, number: int, already: int = 0) -> int:
    """The environment's seed, from which an episode of a single environment, or the whole run of a lane, can be repeated.

    number   that of the episode, or of the lane
    already  episodes that were there when the lanes were started: looking again, or starting from initial data, must not
             meet the same starts a second time
    """
    place = (seed, 1, number, already) if already else (seed, 1, number)
    return int(np.random.SeedSequence(place).generate_state(1, np.uint32)[0])


def shares(episodes: int, n: int) -> np.ndarray:
    """How many episodes each lane contributes, fixed beforehand: were it first come, short episodes would be favoured."""
    return np.array([(episodes + lane) // n for lane in range(n)])
