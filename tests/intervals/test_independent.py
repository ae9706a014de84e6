"""Intervals for independent values: the bootstrap against Efron's formula, and what happens where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evenroll.errors import NoEstimate, SpecError
from evenroll.intervals.independent import NoInterval, bca, binomial, empirical_bernstein, student_t


def efron(x: np.ndarray, draws: np.ndarray, confidence: float) -> np.ndarray:
    """The BCa interval of the mean (Efron 1987, equations 2.3 and 6.6), from means of resamples."""
    left_out = (x.sum() - x) / (len(x) - 1)
    lean = left_out.mean() - left_out
    acceleration = (lean**3).sum() / (6.0 * (lean**2).sum() ** 1.5)
    z0 = stats.norm.ppf((draws < x.mean()).mean())
    z = z0 + stats.norm.ppf([0.5 - confidence / 2, 0.5 + confidence / 2])
    return np.quantile(draws, stats.norm.cdf(z0 + z / (1.0 - acceleration * z)))


@pytest.mark.statistical
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_bca_is_efrons(base_seed: int, confidence: float) -> None:
    """Ends of 20 bootstraps of 2,000, on average, and of one of 20,000, of the same 60 numbers. An end of 2,000 has a
    standard deviation of 2.5 % of the width (300 runs), so the difference has 1 %. P(false) ≤ 1e-6 at 5 %, for each end.
    Catches one-sided quantiles: 8 %. (Skewed to the right, as the data: 1.38 ± 0.02 at 95 %, 1.2 at 80 %.)"""
    x = stats.expon.ppf((np.arange(60) + 0.5) / 60)
    ours = np.mean([bca(x, confidence, seed=base_seed + i) for i in range(20)], axis=0)
    draws = x[np.random.default_rng(base_seed).integers(60, size=(20_000, 60))].mean(axis=1)
    expected = efron(x, draws, confidence)
    np.testing.assert_allclose(ours, expected, atol=0.05 * (expected[1] - expected[0]))
    assert ours[1] - x.mean() > 1.1 * (x.mean() - ours[0])


def test_bca_of_another_statistic_and_the_same_seed() -> None:
    x = np.random.default_rng(3).normal(5.0, 2.0, size=80)
    low, high = bca(x, 0.95, 7, lambda values: np.median(values, axis=-1))
    assert low < np.median(x) < high
    assert (low, high) == bca(x, 0.95, 7, lambda values: np.median(values, axis=-1))
    assert (low, high) != bca(x, 0.95, 8, lambda values: np.median(values, axis=-1))
    wider = bca(x, 0.99, 7)
    narrow = bca(x, 0.9, 7)
    assert wider[0] < narrow[0] < x.mean() < narrow[1] < wider[1]


@pytest.mark.filterwarnings("error")
def test_equal_values_are_a_point_and_a_single_one_is_nothing() -> None:
    assert bca(np.full(10, 3.5)) == (3.5, 3.5)
    assert student_t(np.full(10, 3.5)) == (3.5, 3.5)
    for interval in (bca, student_t, empirical_bernstein):
        with pytest.raises(NoEstimate, match="at least 2"):
            interval(np.array([1.0]))


@pytest.mark.filterwarnings("ignore:The BCa confidence interval")
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_statistic_that_does_not_vary_has_no_bootstrap_interval() -> None:
    values = np.append(np.zeros(50), 1.0)
    with pytest.raises(NoEstimate, match="resamples are all equal"):
        bca(values, statistic=lambda x: np.median(x, axis=-1))


def test_shares_of_none_and_of_all() -> None:
    low, high = binomial(0, 20)
    assert low == 0.0
    assert high == pytest.approx(1.0 - 0.025 ** (1 / 20))  # (1 − p)²⁰ = 2.5 %
    assert binomial(20, 20) == pytest.approx((1.0 - high, 1.0))


def test_no_interval_says_why() -> None:
    assert str(NoInterval("too few")) == "too few"
    assert NoInterval("too few") == NoInterval("too few")


def test_student_t_and_binomial_against_scipy():
    x = np.random.default_rng(0).exponential(size=40)
    np.testing.assert_allclose(student_t(x, 0.9), stats.t.interval(0.9, 39, x.mean(), stats.sem(x)))
    for k in (0, 3, 190, 200):
        low, high = binomial(k, 200, 0.9)  # the shares at which k or more, and k or fewer, have a chance of 5 %
        assert (stats.binom.sf(k - 1, 200, low) if k else low + 0.05) == pytest.approx(0.05, abs=1e-9)
        assert (stats.binom.cdf(k, 200, high) if k < 200 else high - 0.95) == pytest.approx(0.05, abs=1e-9)


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
