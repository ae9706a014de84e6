"""Two policies pair by pair: domains and environments, returns and success, and that nothing is learnt twice."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.errors import DataError, SpecError
from evenroll.evaluation.pairs import compared, fitted, of_quantity, side_of, sources_for, whole_groups
from evenroll.intervals.independent import Interval, NoInterval
from evenroll.policies import epsilon_greedy

SETTINGS: dict[str, Any] = {"gamma": None, "seed": 3, "horizon": None, "deterministic": False, "resets": 0}


class Coin(gym.Env):
    """One step; the action is the probability of success, in tenths. The start is shown, and changes nothing."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(11)

    def __init__(self, tells: bool = True) -> None:
        self.tells = tells

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.random(1), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        won = bool(self.np_random.random() < int(action) / 10)
        return np.zeros(1), 2.0 + won, True, False, {"is_success": won} if self.tells else {}


class Always:
    """A policy that takes one action."""

    def __init__(self, action: int) -> None:
        self.action = action

    def __call__(self, observation: Any) -> int:
        return self.action


def test_domains_and_environments_meet_the_same_starts() -> None:
    good = get_domain("gridworld").policy()
    bad = epsilon_greedy(good.table.argmax(axis=1), 4, 0.3)
    for env in ("gridworld", "evenroll/GridWorld-v0", gym.make("evenroll/GridWorld-v0")):
        sources = sources_for(env, [good, bad], "os", [None, None], **SETTINGS)
        for source in sources:
            list(source.collect(12, None, at_once=True))
        found = compared(side_of(sources[0], "return"), side_of(sources[1], "return"), 0.9)
        assert isinstance(found.interval, Interval)
        assert found.interval.low < found.value < found.interval.high
    pendulum = gym.make("Pendulum-v1")
    sources = sources_for(pendulum, [lambda x: [0.0], lambda x: [1.0]], "os", [None, None], **SETTINGS)
    for source in sources:
        list(source.collect(3, None, at_once=True))
    first, second = (source.rollouts().start_observations() for source in sources)
    np.testing.assert_array_equal(first, second)


def test_lanes_come_together() -> None:
    env = gym.vector.SyncVectorEnv([Coin] * 3)
    sources = sources_for(env, [Always(3)], "os", [None], **SETTINGS)
    assert [whole_groups(sources[0])(n) for n in (5, 6)] == [6, 6]
    assert whole_groups(sources_for("gridworld", [None], "os", [None], **SETTINGS)[0])(5) == 5


def test_success_takes_the_place_of_the_return() -> None:
    sources = sources_for(Coin(), [Always(3), Always(10)], "os", [None, None], **SETTINGS)
    for source in sources:
        list(source.collect(20, None, at_once=True))
    side = side_of(sources[1], "success", 8)
    assert side.values.tolist() == [1.0] * 8
    assert side.data.gamma == 1.0
    assert side.data.column("rewards").sum() == 8.0
    with pytest.raises(SpecError, match="unknown quantity 'luck'; known: return, success"):
        of_quantity(side.data, "luck")
    silent = sources_for(Coin(tells=False), [Always(3)], "os", [None], **SETTINGS)[0]
    list(silent.collect(5, None, at_once=True))
    with pytest.raises(DataError, match="is_success"):
        side_of(silent, "success")


def test_equal_pairs_have_no_interval() -> None:
    sources = sources_for(Coin(), [Always(10), Always(10)], "os", [None, None], **SETTINGS)
    for source in sources:
        list(source.collect(6, None, at_once=True))
    sides = [side_of(source, "return") for source in sources]
    found = fitted(*sides)
    assert found.fit is None
    at = found.at(0.95)
    assert isinstance(at.interval, NoInterval)
    assert at.value == 0.0
    assert sides[0].parts() is sides[0].parts()
