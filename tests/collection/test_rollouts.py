"""Rollouts: what has ended by a checkpoint."""

from __future__ import annotations

import numpy as np

from evenroll.collection.rollouts import Rollouts


def test_a_checkpoint_counts_what_has_ended_by_then() -> None:
    data = Rollouts(1.0, 6, np.array([1.0, 2.0]), np.array([3, 5]), np.ones(2, bool))
    assert [data.prefix(steps).episodes for steps in range(7)] == [0, 0, 0, 1, 1, 2, 2]
