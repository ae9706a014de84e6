"""Rollouts: what has ended by a checkpoint, what stands in front, and what comes next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError


def test_a_checkpoint_counts_what_has_ended_by_then() -> None:
    data = Rollouts(1.0, 6, np.array([1.0, 2.0]), np.array([3, 5]), np.ones(2, bool))
    assert [data.prefix(steps).episodes for steps in range(7)] == [0, 0, 0, 1, 1, 2, 2]


def rollouts(lengths: list[int], first: float = 0.0, open_steps: int = 0, **more: Any) -> Rollouts:
    """Trajectories whose rewards count from `first` on, so that every number says where it came from."""
    ends = np.cumsum(lengths)
    steps = int(ends[-1]) + open_steps
    rewards = first + np.arange(steps, dtype=float)
    sums = np.array([rewards[a:b].sum() for a, b in zip(ends - lengths, ends, strict=True)])
    done = np.arange(len(lengths)) % 2 == 0
    return Rollouts(1.0, steps, sums, ends, done, rewards=rewards, observations=rewards[:, None], **more)


def test_what_stands_in_the_columns() -> None:
    data = rollouts([2, 3], open_steps=2)
    assert (data.episodes, data.truncated, data.unfinished) == (2, 1, 1)
    assert data.lengths.tolist() == [2, 3]
    assert data.all_lengths.tolist() == [2, 3, 2]
    assert rollouts([2, 3]).all_lengths.tolist() == [2, 3]
    done = data.finished()
    assert (done.steps, done.unfinished, done.rewards.tolist()) == (5, 0, [0.0, 1.0, 2.0, 3.0, 4.0])
    with pytest.raises(DataError, match="without actions"):
        data.column("actions")
    with pytest.raises(DataError, match="8 new steps were asked for, 7 were collected"):
        data.prefix(8)


def test_initial_data_is_put_in_front_and_taken_off_again() -> None:
    first, second = rollouts([2, 1], horizon=9), rollouts([3, 2], 100.0, open_steps=1, horizon=9)
    both = second.after(first)
    assert (both.initial_episodes, both.initial_steps, both.steps, both.episodes) == (2, 3, 9, 4)
    assert both.ends.tolist() == [2, 3, 6, 8]
    for part, whole in zip(both.split_initial(), (first, second), strict=True):
        assert (part.steps, part.ends.tolist()) == (whole.steps, whole.ends.tolist())
        for name in ("returns", "terminated", "rewards", "observations"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name))
    assert both.finished().steps == 8
    assert both.prefix(0).returns.tolist() == first.returns.tolist()
    assert both.prefix(3).episodes == 3
    with pytest.raises(DataError, match="finished trajectories"):
        first.after(second)


def test_what_was_collected_next_is_appended() -> None:
    first = rollouts([2, 1]).after(rollouts([4], 50.0))
    more = replace(rollouts([2], 200.0), ends=np.array([5]), steps=5 + 4, initial_episodes=1, initial_steps=4)
    more = replace(
        more, returns=np.append(first.returns[:1], more.returns), ends=np.array([4, 9]), terminated=np.array([True, True]),
        rewards=np.append(first.rewards[:4], more.rewards), observations=np.append(first.rewards[:4], more.rewards)[:, None],
    )  # fmt: skip
    whole = first.continued(more)
    assert (whole.steps, whole.initial_episodes, whole.ends.tolist()) == (9, 1, [4, 6, 7, 9])
    assert whole.rewards.tolist() == [50.0, 51.0, 52.0, 53.0, 0.0, 1.0, 2.0, 200.0, 201.0]
    assert whole.returns.tolist() == [206.0, 1.0, 2.0, 401.0]


def test_data_from_outside_is_brought_into_its_types() -> None:
    data = replace(rollouts([2, 1]), rewards=np.array([0, 1, 2]), terminated=np.array([1, 0]))
    sound = data.sound()
    assert sound.rewards.dtype == np.float64
    assert sound.terminated.tolist() == [True, False]
    for change, words in (
        ({"returns": np.zeros(3)}, "returns has shape"), ({"rewards": np.zeros(2)}, "does not fit 3 rows"),
        ({"observations": np.zeros((2, 1))}, "does not fit 3 rows"), ({"steps": -1}, "number of steps"),
        ({"ends": np.array([2, 7])}, "ends"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=words):
            replace(data, **change).sound()
