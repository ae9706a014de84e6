"""Intervals hold the exact value as often as they say, also when collection stops by looking."""

from __future__ import annotations

import pytest
from scipy import stats

from evenroll.study.coverage import coverage


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["os/mc", "os/score", "ros/mc", "ros/score", "init+ros/mc"])
def test_coverage_on_the_bandit(method, base_seed):
    """250 runs: binomial(250, 0.95) is below 0.88 with probability 5e-6; half-width over oracle is 1.05 ± 0.045 (1.15 for
    os/score, which often falls back to a wider interval). P(false) ≤ 3e-5 in all: 1.4 is 5 standard deviations off.
    Catches a true coverage of 0.81 (it passes with probability 3e-3), and intervals 1.6 times as wide as they need be."""
    result = coverage("bandit", method, episodes=512, repeats=250, seed=base_seed)
    assert result.coverage >= 0.88
    assert result.oracle_ratio < 1.4
    if method.startswith("ros"):
        assert result.iid_ratio < 1.0


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["ros/mc", "ros/score", "os/score"])
def test_coverage_on_cartpole(method, base_seed):
    """100 runs: binomial(100, 0.95) is below 0.84 with probability 1.3e-5. P(false) ≤ 4e-5 in all.
    Catches plain least squares on the scores (0.47 … 0.78; the last with probability 0.9)."""
    result = coverage("cartpole", method, episodes=150, repeats=100, seed=base_seed)
    assert result.coverage >= 0.84
    assert result.iid_ratio < 0.85


@pytest.mark.statistical
def test_gridworld_intervals_hold_and_are_narrow(base_seed):
    """Exact or fallback: 2,000 runs covered 1.000, so of 100 at most 5 may miss; the width is 0.11 ± 0.03 of that of
    independent trajectories (8 × 100 runs). P(false) ≤ 1e-6 at a coverage of 0.998, and 0.35 is 7 standard deviations off.
    Catches a coverage of 0.9 with probability 0.94, and a width that is that of independent trajectories."""
    result = coverage("gridworld", "ros/score", episodes=512, repeats=100, seed=base_seed)
    assert result.coverage >= 0.95
    assert result.iid_ratio < 0.35
    assert result.exact + result.fallback == pytest.approx(1.0)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("where", "method", "width", "runs"),
    [("bandit", "auto/mc", 0.05, 200), ("gridworld", "os/mc", 0.5, 400), ("bandit", "init+ros/mc", 0.04, 200)],
)
def test_stopping_keeps_the_coverage(where, method, width, runs, base_seed):
    """Not below the quantile 2e-5 of binomial(runs, 0.95). P(false) ≤ 6e-5 in all. Catches looking every 10 episodes at 95 %
    (gridworld: that covers 0.876, and passes with probability 0.06) and coverages below 0.8."""
    found = coverage(where, method, half_width=width, repeats=runs, seed=base_seed)
    assert found.coverage >= stats.binom.ppf(2e-5, runs, 0.95) / runs
    assert found.half_width <= width
    assert found.episodes < 1500
