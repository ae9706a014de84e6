"""The loop around an environment: what goes wrong in it is named, and the data is kept."""

from __future__ import annotations

import math
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

import evenroll
from evenroll.collection import environments
from evenroll.collection.environments import collect
from evenroll.collection.rollouts import Rollouts
from evenroll.errors import EnvironmentFault
from evenroll.evaluation.collector import Collector
from evenroll.policies import MLP
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
    monkeypatch.setattr(environments, "LONGEST", 50)
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


LINEAR = MLP([], np.zeros((3, 3)), np.zeros(3))


class Endless(Walk):
    """Never ends by itself."""

    def step(self, action):
        return self._look(), 0.0, False, False, {}


@pytest.mark.parametrize("lanes", [None, 2])
def test_an_environment_that_does_not_end_is_found_early(lanes: int | None, monkeypatch) -> None:
    """It is told after 10,000 steps, and given up after 100,000, with the remedy."""
    assert environments.LONGEST == 100_000

    def make() -> gym.Env:
        return Endless(DISCRETE)

    env = make() if lanes is None else gym.vector.SyncVectorEnv([make] * lanes)
    remedy = "horizon=… (--horizon)" if lanes is None else "gymnasium.wrappers.TimeLimit"
    longest = 100_000 if lanes is None else 11_000  # lanes take longer
    monkeypatch.setattr(environments, "LONGEST", longest)
    with (
        pytest.warns(UserWarning, match=f"not ended after 10,000 steps.*{re.escape(remedy)}"),
        pytest.raises(EnvironmentFault, match=f"not ended after {longest:,} steps.*{re.escape(remedy)}") as caught,
    ):
        evenroll.evaluate(env, LINEAR, episodes=3)
    assert caught.value.step == longest


def test_a_time_limit_of_the_environment_is_believed() -> None:
    env = gym.wrappers.TimeLimit(Endless(DISCRETE), 120_000)
    with pytest.warns(UserWarning, match="given up after 120,001"):
        assert evenroll.evaluate(env, LINEAR, episodes=1).steps == 120_000
    assert evenroll.evaluate(Endless(DISCRETE), LINEAR, episodes=1, horizon=30_000).steps == 30_000
