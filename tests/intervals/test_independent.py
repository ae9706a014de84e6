"""Intervals of independent numbers against references."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evenroll.errors import SpecError
from evenroll.intervals.balanced import (
    bca,
    clopper_pearson,
    empirical_bernstein,
    student_t,
)


def test_student_t_and_clopper_pearson_against_scipy():
    x = np.random.default_rng(0).exponential(size=40)
    np.testing.assert_allclose(student_t(x, 0.9), stats.t.interval(0.9, 39, x.mean(), stats.sem(x)))
    for k in (0, 3, 190, 200):
        np.testing.assert_allclose(clopper_pearson(k, 200), stats.binomtest(k, 200).proportion_ci(), atol=1e-12)


@pytest.mark.statistical
def test_bca_against_scipy(base_seed):
    """Ends of 20 bootstraps of 2,000, on average, and of one of 20,000, of the same 60 numbers. An end of 2,000 has a
    standard deviation of 2.5 % of the width (300 runs), so the difference has 1 %. P(false) ≤ 1e-6 at 5 %.
    Catches one-sided quantiles: 8 %. (Skewed to the right, as the data: 1.38 ± 0.02.)"""
    x = stats.expon.ppf((np.arange(60) + 0.5) / 60)
    ours = np.mean([bca(x, seed=base_seed + i) for i in range(20)], axis=0)
    theirs = stats.bootstrap(
        (x,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(base_seed)
    ).confidence_interval
    np.testing.assert_allclose(ours, theirs, atol=0.05 * (theirs.high - theirs.low))
    assert ours[1] - x.mean() > 1.2 * (x.mean() - ours[0])


@pytest.mark.statistical
def test_bernstein_covers_and_needs_bounds(base_seed):
    """Bernoulli(0.03), n = 50: t misses a fifth of the time, Bernstein at most 5 %.
    P(false) ≤ 2e-5: 80 or more of 1,000 miss. Catches t, and any interval that covers less than 0.89 (1e-3)."""
    rng = np.random.default_rng(base_seed)
    x = (rng.random((1000, 50)) < 0.03).astype(float)
    inside = [low <= 0.03 <= high for low, high in (empirical_bernstein(row, 0.95, (0.0, 1.0)) for row in x)]
    assert np.mean(inside) > 0.92
    with pytest.raises(SpecError, match="bernstein needs"):
        empirical_bernstein(x[0])
    with pytest.raises(SpecError, match="outside"):
        empirical_bernstein(x[0] + 2, 0.95, (0.0, 1.0))
