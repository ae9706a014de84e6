"""Many known tracks at once: what takes time in Python is done once for all lanes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from tests.contract.kinds import STEPS, Kind, Track, stacked


class Tracks(gym.vector.VectorEnv):
    """Known tracks side by side, which all take the same step at once. A lane begins anew in the step that ends it.

    Another autoreset mode would draw other numbers: on-policy runs of four kinds, 40 times each, had 1.00 of the error that
    the balancing test expects of them, with the spread of its χ², and 2 of 160 were below its limit (theory: 1.8).
    """

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, kind: Kind, lanes: int) -> None:
        self.track, self.num_envs = Track(kind, known=True), lanes
        self.single_observation_space, self.single_action_space = kind.observations, kind.actions
        self.observation_space, self.action_space = (
            gym.vector.utils.batch_space(space, lanes) for space in (kind.observations, kind.actions)
        )
        self.seen = [repeated(kind.observations, x, lanes) for x in self.track.same[: STEPS + 1]]
        if kind.masked:
            self.call = lambda name: [getattr(self.track, name)()] * lanes

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.track.reset()
        return self.seen[0], {}

    def step(self, actions: Any) -> Any:
        assert self.action_space.contains(actions), actions
        rewards = self.track.rewards(actions)
        self.track.t += 1
        over = np.full(self.num_envs, self.track.t == STEPS)
        infos: dict[str, Any] = {}
        if over.all():
            infos = {"final_obs": self.seen[STEPS], "final_info": {}}
            self.track.reset()
        return self.seen[self.track.t], rewards, over, np.zeros(self.num_envs, dtype=bool), infos


def repeated(space: gym.Space, item: Any, n: int) -> Any:
    """A batch of n times the same."""

    def rows(batch: Any) -> Any:
        return {key: rows(part) for key, part in batch.items()} if isinstance(batch, dict) else np.repeat(batch, n, axis=0)

    return rows(stacked(space, [item]))
