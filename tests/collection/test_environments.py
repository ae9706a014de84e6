"""The loop around an environment: what goes wrong in it is named, and the data is kept."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

import evenroll
from evenroll.collection import recorder
from evenroll.collection.environments import collect
from evenroll.collection.rollouts import Rollouts
from evenroll.errors import EnvironmentFault
from evenroll.evaluation.collector import Collector
from tests.helpers import DISCRETE, Walk
from tests.torch_helpers import Head, categorical


class Broken(Walk):
    """Goes wrong in its third episode, at its fourth step."""

    def __init__(self, how: str) -> None:
        super().__init__(DISCRETE)
        self.how, self.episode = how, -1

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        return super().reset(seed=seed)

    def step(self, action):
        x, r, over, cut, info = super().step(action)
        if self.episode == 2 and self.t == 4:
            if self.how == "raise":
                raise RuntimeError("out of fuel")
            if self.how == "reward":
                r = math.nan
            if self.how == "observation":
                x[1] = math.inf
        return x, r, over and self.how != "endless", cut, info


@pytest.mark.parametrize(
    ("how", "where"),
    [("reward", r"reward nan.*episode 2, step 3, seed 5"), ("observation", r"not finite.*episode 2, step 4, seed 5"),
     ("raise", r"RuntimeError.*episode 2: out of fuel"), ("endless", r"not ended after 50 steps.*episode 0, step 50")],
)  # fmt: skip
def test_a_broken_environment_is_named_and_the_data_kept(how: str, where: str, monkeypatch) -> None:
    monkeypatch.setattr(recorder, "LONGEST_EPISODE", 50)
    with pytest.raises(EnvironmentFault, match=where) as caught:
        evenroll.evaluate(Broken(how), Head(3, 3, categorical), episodes=10, seed=5)
    kept = caught.value.rollouts
    assert kept.episodes == (0 if how == "endless" else 2)
    assert caught.value.seed == 5
    if how == "endless":
        assert evenroll.evaluate(Broken(how), Head(3, 3, categorical), episodes=3, horizon=9).truncated == 3


class Reusing(Walk):
    """Gives the same array again and again, and writes into it."""

    def _look(self):
        seen = super()._look()
        self.buffer = getattr(self, "buffer", np.zeros_like(seen))
        self.buffer[:] = seen
        return self.buffer


def _collected(env: Any, lanes: int | None) -> tuple[Rollouts, dict[int, np.ndarray]]:
    torch.manual_seed(0)
    spaces = {"observation_space": Walk(DISCRETE).observation_space, "action_space": DISCRETE}
    collector = Collector(Head(3, 3, categorical), lanes=lanes, seed=4, **spaces)
    for _ in collect(collector, env, episodes=9):
        pass
    return collector.rollouts(), collector.last_observations()


@pytest.mark.parametrize("mode", [None, *AutoresetMode])
def test_an_environment_may_reuse_its_buffers(mode: AutoresetMode | None) -> None:
    """The same data, last observations included, as from an environment that gives a new array every time."""
    if mode is None:
        found = [_collected(kind(DISCRETE), None) for kind in (Walk, Reusing)]
    else:
        made = [
            gym.vector.SyncVectorEnv([lambda: Walk(DISCRETE)] * 3, copy=copy, autoreset_mode=mode) for copy in (True, False)
        ]
        found = [_collected(env, 3) for env in made]
    (data, last), (again, last_again) = found
    for column in ("observations", "actions", "rewards", "returns", "log_b"):
        np.testing.assert_array_equal(getattr(data, column), getattr(again, column))
    assert len(np.unique(data.observations)) == data.observations.size
    assert last.keys() == last_again.keys() == set(range(9))
    assert not np.isin(np.array(list(last.values())), data.observations).any()
    for i, observation in last.items():
        np.testing.assert_array_equal(observation, last_again[i])
