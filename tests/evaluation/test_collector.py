"""The result of one's own loop: what `evaluate` would say, and within memory and time also where observations are long."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import evenroll

SPACES: dict[str, Any] = {"observation_space": gym.spaces.Box(-1.0, 1.0, (2,)), "action_space": gym.spaces.Discrete(2)}


@pytest.mark.parametrize("numbers", [348, 2835])
def test_long_observations_cost_little(numbers: int) -> None:
    """As many numbers as Humanoid-v5 and MiniGrid's flat view have. The result used to take 21 s, and 17 GiB."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(numbers, 64), torch.nn.Tanh(), torch.nn.Linear(64, 7))
    spaces = {"observation_space": gym.spaces.Box(0.0, 1.0, (numbers,)), "action_space": gym.spaces.Discrete(7)}
    collector, rng = evenroll.Collector(module, **spaces), np.random.default_rng(0)
    for _ in range(64):
        for t in range(12):
            action = collector.act((rng.random(numbers) < 0.1).astype(np.float32), start=t == 0)
            collector.observe(float(action == 1), t == 11)
    tracemalloc.start()
    found = collector.result()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.low is not None
    assert peak < 200e6
    started = time.process_time()
    collector.result()
    assert time.process_time() - started < 5.0


def test_bounds_help_where_all_returns_are_equal() -> None:
    collector = evenroll.Collector(lambda x: [0.5, 0.5], **SPACES)
    for _ in range(20):
        collector.act(np.zeros(2, np.float32))
        collector.observe(1.0, True)
    unknown, known = collector.result(), collector.result(bounds=(0.0, 1.0))
    assert unknown.low is None
    assert "bounds=(A, B)" in str(unknown.why)
    assert (known.low, known.high) == pytest.approx((0.8316, 1.0), abs=1e-4)


def test_no_length_is_beyond_the_horizon() -> None:
    """Eleven episodes of 10 steps, cut by the horizon, and three of 6, 8 and 9: mean + t · s/√n is 10.2."""
    collector = evenroll.Collector(lambda x: 1, horizon=10, **SPACES)
    for episode in range(14):
        over, t = False, 0
        while not over:
            collector.act(np.zeros(2, np.float32))
            t += 1
            over = collector.observe(1.0, episode < 3 and t == (6, 8, 9)[episode])
    length = collector.result().quantities["length"]
    assert length.value == pytest.approx((11 * 10 + 23) / 14)
    assert length.high == 10.0
    assert length.low is not None
    assert length.low > 1.0
