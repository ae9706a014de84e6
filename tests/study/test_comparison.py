"""Comparisons: the same bits from any number of workers, checkpoints, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.errors import SpecError
from evenroll.study import compare


def test_any_number_of_workers_gives_the_same_bits() -> None:
    for name, budget in (("gridworld", 128), ("cartpole", 32)):
        methods = ["os/mc", "ros/mc", "bpg/ois", "init+ros/mc"]
        results = [
            compare(
                name, methods, trials=10, budget=budget, initial_episodes=10, seed=3, workers=w, value=4.0, mean_length=20.0
            )
            for w in (1, 2, 7)
        ]
        for other in results[1:]:
            for a, b in zip(results[0].curves, other.curves, strict=True):
                np.testing.assert_array_equal(a.estimates, b.estimates)


def test_checkpoints_missing_trials_and_initial_checkpoint() -> None:
    result = compare("gridworld", ["os", "init+os"], trials=20, budget=6, initial_episodes=5)
    T = result.mean_length
    assert result.checkpoints == (0, int(T), int(2 * T), int(4 * T), int(6 * T))
    assert result.curves[0].missing[0] == 20
    assert np.isnan(result.curves[0].mse[0])
    assert result.curves[1].missing[0] == 0
    assert result.to_json()["methods"][0]["mse"][0] is None


def test_bad_budgets_and_values_are_refused() -> None:
    for options in ({"budget": 0.5}, {"budget": float("nan")}, {"trials": 0}, {"value": 0.0}, {"mean_length": float("inf")}):
        with pytest.raises(SpecError):
            compare("gridworld", ["os"], **{"trials": 1, "budget": 1, **options})


def test_compare_reports_weights_where_there_are_any() -> None:
    plain, weighted_, on_policy = compare("gridworld", ["os/mc", "ros/wis", "os/wis"], trials=3, budget=32).curves
    assert plain.effective_sample_size is None
    assert weighted_.effective_sample_size is not None
    assert weighted_.largest_weight is not None
    assert on_policy.effective_sample_size is not None
    ess, largest = weighted_.effective_sample_size, weighted_.largest_weight
    finished = ~np.isnan(ess)
    assert (ess[finished] * largest[finished] >= 1.0 - 1e-9).all()  # n equal weights: n · 1/n; unequal ones: more
    assert weighted_.to_json()["effective_sample_size"][-1] < on_policy.to_json()["effective_sample_size"][-1]
