"""Intervals hold the exact value as often as they say, also when collection stops by looking."""

from __future__ import annotations

import pytest
from scipy import stats

from evenroll.study.coverage import coverage, coverage_table


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sampler", "estimators"), [("os", ("mc", "score")), ("ros", ("mc", "score")), ("init+ros", ("mc",))]
)
def test_coverage_on_the_bandit(sampler, estimators, base_seed):
    """400 runs: binomial(400, 0.95) is below 0.895 with probability 5e-6; half-width over oracle is 1.06 ± 0.04
    (1.15 for os/score, which often falls back to a wider interval). P(false) ≤ 4e-5 in all: for os/score 1.3 is 4.2 standard
    deviations off, for the others 6.
    Catches a true coverage of 0.85 (it passes with probability 5e-3), and intervals 1.45 times as wide as they need be.
    Both estimators look at the same runs, as they did when each had its own: the seed decides the data."""
    settings = {"sampler": sampler, "estimators": estimators, "repeats": 400, "seed": base_seed}
    for result in coverage_table("bandit", episodes=512, **settings):
        assert result.coverage >= 0.895
        assert result.oracle_ratio < 1.3
        if sampler == "ros":
            assert result.iid_ratio < 1.0


@pytest.mark.statistical
@pytest.mark.parametrize(("sampler", "estimators"), [("ros", ("mc", "score")), ("os", ("score",))])
def test_coverage_on_cartpole(sampler, estimators, base_seed):
    """200 runs of 200 episodes: binomial(200, 0.95) is below 0.875 with probability 1e-5. P(false) ≤ 3e-5 in all.
    Catches a true coverage of 0.8 (it passes with probability 4e-3) and of 0.85 (0.18), and plain least squares on the
    scores, which covers 0.47 … 0.78."""
    settings = {"sampler": sampler, "estimators": estimators, "repeats": 200, "seed": base_seed}
    for result in coverage_table("cartpole", episodes=200, **settings):
        assert result.coverage >= 0.875
        assert result.iid_ratio < 0.85


@pytest.mark.statistical
def test_gridworld_intervals_hold_and_are_narrow(base_seed):
    """Exact or fallback: 2,000 runs covered 1.000, so of 1,000 at most 15 may miss; the width is 0.122 ± 0.012 of that
    of independent trajectories (5 × 400 runs: ± 0.019). P(false) ≤ 1e-6 at a coverage of 0.998, and 0.2 is 6 standard
    deviations off. Catches a coverage of 0.97 (it passes with probability 2e-3), and a width that is a fifth of that
    of independent trajectories."""
    result = coverage("gridworld", "ros/score", episodes=512, repeats=1000, seed=base_seed)
    assert result.coverage >= 0.985
    assert result.iid_ratio < 0.2
    assert result.exact + result.fallback == pytest.approx(1.0)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("where", "method", "width", "runs"),
    [("bandit", "auto/mc", 0.05, 400), ("gridworld", "os/mc", 0.5, 400), ("bandit", "init+ros/mc", 0.04, 400)],
)
def test_stopping_keeps_the_coverage(where, method, width, runs, base_seed):
    """Not below the quantile 2e-5 of binomial(runs, 0.95). P(false) ≤ 6e-5 in all. Catches looking every 10 episodes at 95 %
    (gridworld: that covers 0.876, and passes with probability 0.08) and coverages below 0.85 (they pass with 2e-3)."""
    found = coverage(where, method, half_width=width, repeats=runs, seed=base_seed)
    assert found.coverage >= stats.binom.ppf(2e-5, runs, 0.95) / runs
    assert found.half_width <= width
    assert found.episodes < 1500
