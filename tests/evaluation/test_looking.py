"""A look at data: what overflows is refused by name, and never shown as a number."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.errors import NoEstimate
from evenroll.evaluation.looking import left_out


class Rich(gym.Env):
    """Two steps, huge rewards."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.zeros(1, np.float32), self.scale * (1.0 + action), self.t == 2, False, {}


def either(observation: Any) -> list[float]:
    return [0.5, 0.5]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sampler", ["os", "auto"])
def test_squares_that_overflow_leave_no_interval(sampler: str) -> None:
    result = evenroll.evaluate(Rich(1e200), either, sampler=sampler, episodes=40)
    assert 2e200 <= result.value <= 4e200
    assert (result.low, result.high) == (None, None)
    assert "overflow" in result.why
    assert result.on_policy_episodes is None


@pytest.mark.filterwarnings("error")
def test_returns_that_overflow_are_refused() -> None:
    with pytest.raises(NoEstimate, match="overflow"):
        evenroll.evaluate(Rich(8e307), either, sampler="os", episodes=40)


SPACES = {"observation_space": Rich.observation_space, "action_space": Rich.action_space}


def test_lanes_that_are_looked_at_in_the_midst_are_told() -> None:
    """Each step is the last with probability 0.1. With one lane nothing is lost but precision."""
    rng = np.random.default_rng(0)
    for lanes in (8, 1):
        collector = evenroll.Collector(either, "os", lanes=lanes, **SPACES)
        while collector.episodes < 12 or not collector.open_episodes:
            collector.act(np.zeros((lanes, 1), np.float32))
            collector.observe(np.ones(lanes), rng.random(lanes) < 0.1)
        found = collector.result()
        told = f"{collector.open_episodes} episodes that had not ended are left out"
        assert (told in found.in_words()) is (lanes == 8)
        assert len(found.warnings) == (lanes == 8)


@pytest.mark.statistical
@pytest.mark.parametrize("lanes", [1, 8])
def test_what_open_episodes_take_from_the_mean(lanes: int, base_seed: int) -> None:
    """Geometric episodes with mean 10 in lanes that are looked at after 120 steps: 2,000 runs of the bias that is told and
    the one that is there, 0.73 with 8 lanes and none with one. P(false) ≤ 1e-4: 4 standard errors of their sum, 0.1 (one
    lane: 0.3), and 0.2 for the second order. Catches a bias that is not told, or that has the wrong sign."""
    rng, gaps, steps = np.random.default_rng(base_seed), [], 120
    for _ in range(2000):
        every = rng.geometric(0.1, (lanes, steps))
        ended = every[np.cumsum(every, axis=1) <= steps]
        data = SimpleNamespace(returns=ended.astype(float), lengths=ended, episodes=len(ended))
        told = re.search(r"too (low|high) by about ([0-9.e-]+)", " ".join(left_out(data, lanes)))  # type: ignore[arg-type]
        gaps.append(ended.mean() - 10.0 + (0.0 if told is None else float(told[2])))
    assert abs(np.mean(gaps)) < 4.0 * np.std(gaps) / 2000**0.5 + 0.2


def test_the_share_of_the_actions_is_told_where_there_is_enough_to_tell() -> None:
    """With fewer than 8 episodes nothing is said; where the actions settle everything, all of it is found."""
    few, many = (evenroll.evaluate(Rich(1.0), either, episodes=n) for n in (7, 40))
    assert few.action_share is None
    assert many.action_share == pytest.approx(1.0, abs=0.05)
