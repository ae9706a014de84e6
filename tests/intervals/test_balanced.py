"""Intervals of balanced data: exact where the scores explain everything, wider where they say so."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.estimators.score_regression import ScoreRegression, score_regression
from evenroll.estimators.table import ESTIMATORS
from evenroll.evaluation.evaluate import evaluate
from evenroll.intervals.balanced import balanced_interval, centred_half_width, estimate_with_interval
from evenroll.intervals.independent import Interval, NoInterval, student_t
from evenroll.intervals.skewed import second_order
from evenroll.samplers.table import get_sampler
from tests.helpers import trial


def test_score_is_exact_where_the_domain_is_deterministic():
    policy, data = get_domain("gridworld").policy(), trial("gridworld", "ros", episodes=3000)
    fit = score_regression(data, policy)
    assert fit.exact
    assert fit.value == pytest.approx(get_domain("gridworld").known_truth(policy).value, rel=1e-8)
    found = balanced_interval(fit, data.returns, fit.value, estimator="score")
    assert found.exact
    assert not found.fallback
    assert 0 < found.half_width < 1e-6
    assert str(found.note).startswith("the scores explain every return")


def test_where_the_value_is_known_mc_gets_it_too_and_is_told_how_far_off_it_is():
    policy, data = get_domain("gridworld").policy(), trial("gridworld", "ros", episodes=3000)
    mean, fit = float(data.returns.mean()), score_regression(data, policy)
    found = balanced_interval(fit, data.returns, mean, estimator="mc")
    assert abs(mean - fit.value) > 1e-5
    assert found.low < get_domain("gridworld").known_truth(policy).value < found.high
    assert 0 < found.half_width < 1e-6
    assert found.exact
    assert f"mc is off by {mean - fit.value:+.2g}" in found.note
    text = str(evaluate("gridworld", sampler="ros", episodes=3000))
    assert text.startswith("4.39")
    assert "exact up to rounding, 3000 episodes" in text


@pytest.mark.parametrize("b", [0.0, 0.3, -2.0, 8.0])
def test_centred_half_width_holds_the_confidence(b):
    h = centred_half_width(b, 0.7, 30, 0.95)
    inside, _ = integrate.quad(lambda t: stats.t.pdf(t, 30), (-h - b) / 0.7, (h - b) / 0.7)
    assert inside == pytest.approx(0.95, abs=1e-7)
    assert h >= abs(b)
    assert centred_half_width(b, 0.0, 30) == abs(b)


def test_fallbacks_say_so_and_widen():
    returns = np.random.default_rng(0).normal(10, 1, 400)
    fit = ScoreRegression(10.0, 0.01, 398, 0.02, 0.0)
    plain = balanced_interval(fit, returns, 10.0)
    assert not plain.fallback
    assert plain.note is None
    unseen = balanced_interval(ScoreRegression(10.0, 0.01, 398, 0.02, 0.002), returns, 10.0)
    assert unseen.fallback
    assert "hardly ever taken" in unseen.note
    assert unseen.half_width == pytest.approx(plain.half_width + 0.002 * np.ptp(returns))
    few = balanced_interval(ScoreRegression(10.0, 0.01, 5, 0.02, 0.0), returns[:7], returns[:7].mean())
    low, high = student_t(returns[:7])
    assert few.fallback
    assert few.half_width >= (high - low) / 2
    other = balanced_interval(fit, returns, 10.5, estimator="wris")  # contains the interval of score
    assert other.low <= 10.0 - 1.96 * 0.01
    assert other.high >= 10.0 + 1.96 * 0.01


def test_iid_intervals_on_dependent_data_are_refused_unless_forced():
    policy, data = get_domain("bandit").policy(), trial("bandit", "ros", episodes=200)
    sampler, mc = get_sampler("ros", get_domain("bandit").paper), ESTIMATORS["mc"]
    for kind in ("t", "bca", "bernstein"):
        with pytest.raises(SpecError, match="depend on each other"):
            estimate_with_interval(data, policy, sampler, mc, kind=kind, bounds=(-9.0, 9.0))
    _, forced = estimate_with_interval(data, policy, sampler, mc, kind="t", force=True)
    assert isinstance(forced, Interval)
    assert "forced" in forced.note
    np.testing.assert_allclose((forced.low, forced.high), student_t(data.returns))
    _, free = estimate_with_interval(data, policy, sampler, ESTIMATORS["ois"])
    assert free.kind == "t"  # each weighted return has mean v given the past
    for kind in ("bca", "bernstein"):  # which need independence, not only the right mean
        with pytest.raises(SpecError, match="depend on each other"):
            estimate_with_interval(data, policy, sampler, ESTIMATORS["ois"], kind=kind, bounds=(-9.0, 9.0))
    off = trial("bandit", "off", episodes=100)
    _, none = estimate_with_interval(off, policy, get_sampler("off"), mc)
    assert isinstance(none, NoInterval)
    assert "the behaviour is not near" in none.why


def test_long_tails_are_told_where_they_show() -> None:
    def made(skewness: float, n: int = 32):
        fit = ScoreRegression(10.0, 1.0, n - 1, 0.0, 0.0, skewness=skewness)
        return balanced_interval(fit, np.linspace(0.0, 20.0, n), 10.0, estimator="score")

    even, left, right = made(0.1), made(-2.0), made(2.0)
    assert even.note is None
    assert even.high - 10.0 == pytest.approx(10.0 - even.low, rel=1e-3)
    assert "low values are rare" in (left.note or "")
    assert "high values are rare" in (right.note or "")
    assert 10.0 - left.low == pytest.approx((left.high - 10.0) * (1.0 + second_order(0.95) * 4.0 / 32), rel=1e-6)
    assert (left.low, left.high) == (pytest.approx(20.0 - right.high), pytest.approx(20.0 - right.low))
    assert made(-2.0, 500).note is None
    assert not left.fallback
