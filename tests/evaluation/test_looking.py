"""A look at data: what overflows is refused by name, and never shown as a number."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.errors import NoEstimate


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
