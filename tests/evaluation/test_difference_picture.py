"""The picture of a difference: every pair, their running mean, the estimate and its interval."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.errors import DataError
from evenroll.evaluation.difference_picture import paired
from tests.evaluation.test_presenting import half, upright


def test_pairs_mean_and_interval(tmp_path: Path) -> None:
    gap = evenroll.difference(gym.make("CartPole-v1"), upright, half, episodes=12)
    first, second = gap.rollouts
    assert first is not None
    assert second is not None
    axis = gap.plot(tmp_path / "a.png").axes[0]
    gaps = first.returns - second.returns
    zero, pairs, means, value = axis.lines
    np.testing.assert_allclose(zero.get_ydata(), 0.0)
    np.testing.assert_allclose(pairs.get_ydata(), gaps)
    np.testing.assert_allclose(means.get_ydata()[[0, -1]], [gaps[0], gaps.mean()])
    np.testing.assert_allclose(value.get_ydata(), gap.value)
    (band,) = axis.patches
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((gap.low, gap.high))
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    without = replace(gap, low=None, high=None, why="overflow")
    assert not without.plot().axes[0].patches
    with pytest.raises(DataError, match="no data to draw"):
        evenroll.Difference.from_json(gap.to_json()).plot()


def test_only_episodes_that_both_have_finished_are_paired() -> None:
    np.testing.assert_array_equal(paired(np.array([3.0, 5.0, 9.0]), np.array([1.0, 1.0])), [2.0, 4.0])
