"""Importance weights: long products, numbers beyond floating point, impossible actions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import evenroll
from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError, NoEstimate
from evenroll.estimators.importance import effective_sample_size, largest_weight, weights_that_do_not_fit
from evenroll.estimators.table import ESTIMATORS
from tests.helpers import COIN, weighted_data


def test_long_products_are_exact() -> None:
    """10,000 steps at p = 1e-3, π_e/π_b = 1 + 1e-4 at each."""
    data = weighted_data(np.full(10_000, math.log(1e-3) + math.log1p(1e-4)), np.full(10_000, math.log(1e-3)), [10_000])
    for name in ("ois", "pdis"):
        assert ESTIMATORS[name](data, COIN) == pytest.approx(math.exp(10_000 * math.log1p(1e-4)), rel=1e-10)


@pytest.mark.parametrize("sign", [1, -1])
def test_weights_beyond_floating_point(sign: int) -> None:
    """Weights exp(±69,078) and half of it: weighted estimators stay finite and right; ordinary ones say so or give 0."""
    p, other = np.full(20_000, math.log(1e-3)), np.zeros(20_000)
    other[10_000:] = math.log(1e-3)  # the second trajectory has weight 1
    p[10_000:] += sign * math.log(3.0) / 10_000
    log_e, log_b = (other, p) if sign > 0 else (p, other)
    data = weighted_data(log_e, log_b, [10_000, 20_000], rewards=[*np.zeros(9_999), 7.0, *np.zeros(9_999), 1.0])
    heavy = 7.0 if sign > 0 else 1.0
    assert ESTIMATORS["wis"](data, COIN) == pytest.approx(heavy, abs=1e-10)
    weights = ESTIMATORS["wis"].log_weights(data, COIN)
    assert effective_sample_size(weights) == pytest.approx(1.0)
    assert largest_weight(weights) == pytest.approx(1.0)
    for name in ("ois", "pdis"):
        if sign > 0:
            with pytest.raises(NoEstimate, match="beyond floating point"):
                ESTIMATORS[name](data, COIN)
        else:
            assert ESTIMATORS[name](data, COIN) == pytest.approx(math.exp(weights[1]) / 2, rel=1e-10)


def test_effective_sample_size() -> None:
    assert effective_sample_size(np.log([1.0, 1.0, 2.0])) == pytest.approx(16 / 6)
    assert largest_weight(np.log([1.0, 1.0, 2.0])) == pytest.approx(0.5)
    assert effective_sample_size(np.full(3, -np.inf)) == largest_weight(np.full(3, -np.inf)) == 0.0


def test_impossible_behaviour_without_steps_names_the_trajectory() -> None:
    data = Rollouts(1.0, 2, np.ones(2), np.array([1, 2]), np.ones(2, bool), log_weights=np.array([0.0, np.inf]))
    with pytest.raises(DataError, match="trajectory 1"):
        ESTIMATORS["wis"](data, COIN)


def test_impossible_actions_of_the_evaluation_policy_weigh_nothing() -> None:
    data = weighted_data([0, -np.inf, 0, 0], np.log([1, 0.5, 0.5, 0.5]), [2, 4], rewards=[10, 100, 3, 5])
    assert ESTIMATORS["wis"](data, COIN) == pytest.approx(8.0)
    assert ESTIMATORS["ois"](data, COIN) == pytest.approx(4 * 8 / 2)
    assert ESTIMATORS["pdis"](data, COIN) == pytest.approx((10 + 2 * 3 + 4 * 5) / 2)
    assert ESTIMATORS["wris"](data, COIN) == pytest.approx(8.0)
    assert np.isfinite(ESTIMATORS["wdr"](data, COIN))
    none = weighted_data([-np.inf], [0.0], [1])
    assert ESTIMATORS["ois"](none, COIN) == 0.0
    with pytest.raises(NoEstimate, match="every weight is 0"):
        ESTIMATORS["wis"](none, COIN)


def test_weights_that_are_not_1_on_average_are_told() -> None:
    """Greedy behaviour takes what it prefers with probability 1: all weights are π_e < 1, and their spread shows nothing."""
    rng = np.random.default_rng(0)
    assert "0.1 on average" in str(weights_that_do_not_fit(np.log(np.full(50, 0.1))))
    assert weights_that_do_not_fit(np.zeros(50)) is None
    fair = np.log(rng.choice([0.5, 1.5], 400))
    assert weights_that_do_not_fit(fair) is None
    assert weights_that_do_not_fit(fair + 0.3) is not None
    assert weights_that_do_not_fit(np.log([0.1, 0.1])) is None  # two say too little
    found = evenroll.evaluate("bandit", sampler="roa", estimator="ois", episodes=100)
    assert found.value < 0.2  # the value is 0.8
    assert found.low is None
    assert "would have to be 1" in found.in_words()
    assert evenroll.evaluate("bandit", sampler="bpg", estimator="ois", episodes=100).low is not None


def test_wis_on_the_first_data_and_the_mean_of_the_rest() -> None:
    """Two initial trajectories of weights 2 and 1, then none, one, and two new ones."""
    first = weighted_data(np.log([0.5, 0.5]), np.log([0.25, 0.5]), [1, 2], np.array([3.0, 6.0]))
    wis = ESTIMATORS["wis+mc"]
    for new, expected in (([10.0], (2 * 4.0 + 10.0) / 3), ([10.0, 20.0], (2 * 4.0 + 30.0) / 4)):
        n = len(new)
        more = weighted_data(np.log(np.full(n, 0.5)), np.log(np.full(n, 0.5)), list(range(1, n + 1)), np.array(new))
        data = more.after(first)
        assert wis(data, COIN) == pytest.approx(expected)
        assert wis(data.prefix(0), COIN) == pytest.approx(4.0)
