"""Skewness of values: that of SciPy, and 0 where values have no shape."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evenroll.estimators.skewness import skewness


@pytest.mark.parametrize("n", [3, 8, 100])
def test_skewness_is_that_of_scipy(n):
    values = np.random.default_rng(n).exponential(size=n)
    assert skewness(values) == pytest.approx(stats.skew(values, bias=False))
    assert skewness(-3.0 * values + 2.0) == pytest.approx(-skewness(values))


def test_values_without_spread_or_beyond_number_have_no_skewness():
    assert skewness(np.ones(9)) == 0.0
    assert skewness(np.array([1.0, 5.0])) == 0.0
    with np.errstate(over="ignore"):
        assert skewness(np.array([1e200, -1e200, 3e200])) == 0.0


@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e100])
def test_skewness_does_not_depend_on_the_scale(scale):
    """The power 1.5 of a variance of 1e-300 is 0; nothing is divided by it."""
    values = np.random.default_rng(1).exponential(size=20)
    assert skewness(scale * values) == pytest.approx(skewness(values))
