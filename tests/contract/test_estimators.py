"""What every estimator must obey."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError, NoEstimate
from evenroll.estimators.table import ESTIMATORS
from evenroll.study import compare
from tests.helpers import COIN, QUICK_ESTIMATORS, weighted_data


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_nothing_finished_is_no_estimate(name: str) -> None:
    empty = np.zeros((1, 1))
    data = Rollouts(
        1.0, 1, np.zeros(0), np.zeros(0, int), np.zeros(0, bool), np.zeros(0), empty, empty, np.zeros(1), np.zeros(1),
        np.zeros(1),
    )  # fmt: skip
    with pytest.raises(NoEstimate, match="finished"):
        ESTIMATORS[name](data, COIN)


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"mc", "wis+mc"}))
def test_missing_columns_are_named(name: str) -> None:
    data = Rollouts(1.0, 4, np.ones(4), np.arange(1, 5), np.ones(4, bool))
    with pytest.raises(DataError, match="collected without"):
        ESTIMATORS[name](data, COIN)


@pytest.mark.parametrize("name", ["ois", "wis", "pdis", "dr", "wdr"])
def test_impossible_behaviour_names_the_step(name: str) -> None:
    data = weighted_data([0, 0, 0, 0, 0], [0, 0, 0, -np.inf, 0], [2, 5])
    with pytest.raises(DataError, match=r"trajectory 1, step 1:.*probability 0"):
        ESTIMATORS[name](data, COIN)


def test_selectable_in_compare_and_initial_data() -> None:
    result = compare(
        "gridworld", [f"init+os/{name}" for name in QUICK_ESTIMATORS], trials=2, budget=32, initial_episodes=20, workers=1
    )
    for curve in result.curves:
        assert np.isfinite(curve.estimates[:, -1]).all(), curve.method
