"""Intervals: formulas against references, coverage against exact values, stopping that does not spoil it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import integrate, stats
from typer.testing import CliRunner

from evenroll.cli.app import app
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.estimators.score_regression import ScoreRegression, action_part, score_regression
from evenroll.estimators.table import ESTIMATORS
from evenroll.estimators.table_action_part import advantages_of_model
from evenroll.evaluation.evaluate import evaluate
from evenroll.intervals.balanced import balanced_interval, centred_half_width, estimate_with_interval
from evenroll.intervals.independent import Interval, NoInterval, clopper_pearson, empirical_bernstein, student_t
from evenroll.intervals.stopping import Target, collect_until, spending
from evenroll.policies import TabularSoftmax
from evenroll.samplers.table import get_sampler
from evenroll.study.coverage import coverage


def collect(domain, sampler="os", episodes=100, seed=0, policy=None):
    domain = get_domain(domain)
    policy = policy or domain.policy()
    driver = Driver(
        policy, get_sampler(sampler, domain.paper), (seed,), gamma=domain.gamma, horizon=domain.horizon, record_steps=True
    )
    return driver.run(domain.environment(None), episodes=episodes), policy


# ---- scores ----------------------------------------------------------------------------------------------------


def test_model_advantages_are_dynamic_programming():
    """A complete random MDP with termination: Q − V of the linear system, mean 0 under π; unseen: average."""
    rng = np.random.default_rng(0)
    S, A, gamma = 5, 3, 0.9
    P = rng.dirichlet(np.ones(S + 1), size=(S, A))[:, :, :S]  # the rest of the mass ends the episode
    r, pi = rng.normal(size=(S, A)), rng.dirichlet(np.ones(A), size=S)
    V = np.linalg.solve(np.eye(S) - gamma * np.einsum("sa,sat->st", pi, P), (pi * r).sum(axis=1))
    exact = r + gamma * P @ V - V[:, None]
    visits = np.full((S, A), 1000.0)
    for horizon in (None, 400):
        found = advantages_of_model(P * 1000.0, r * 1000.0, visits, pi, gamma, horizon)
        np.testing.assert_allclose(found, exact, atol=1e-10)
    visits[2, 1] = 0.0
    thin = advantages_of_model(P * visits[:, :, None], r * visits, visits, pi, gamma, None)
    np.testing.assert_allclose((pi * thin).sum(axis=1), 0.0, atol=1e-12)
    assert abs(thin[2, 1]) < 1e-12


def test_an_episode_does_not_shape_its_own_correction():
    """Multiply one episode's rewards: the action part of its own fold stays, to the last bit; others change."""
    from dataclasses import replace

    for domain in ("bandit", "cartpole", "cartpole-continuous"):
        data, policy = collect(domain, episodes=60)
        rewards = data.rewards.copy()
        rewards[data.ends[6] : data.ends[7]] *= 3.0  # episode 7, fold 7
        before = action_part(data, policy).apart
        after = action_part(replace(data, rewards=rewards), policy).apart
        own = np.arange(60) % 10 == 7
        np.testing.assert_array_equal(before[own], after[own])
        assert (before[~own] != after[~own]).any()


@pytest.mark.statistical
def test_balanced_scores_take_the_mean_of_all_folds_together(base_seed):
    """Means over 6 runs of 200 episodes (20 such means measured). Looseness: 1.07 ± 0.10 on-policy, 0.17 ± 0.03 with auto.
    Cross-fitting leans on balanced data, by +0.86 ± 0.19 against all folds together. P(false) ≤ 1e-5: 0.6 is 4.7, no lean
    4.5 standard deviations off. Catches a mean of the wrong folds: the other one is 0.5 (os) and 0.7 (auto) away."""

    def parts(sampler):
        found = [action_part(*collect("cartpole-continuous", sampler, 200, seed=base_seed + i)) for i in range(6)]
        columns = ([p.loose for p in found], [p.apart.mean() for p in found], [p.together for p in found])
        return *(float(np.mean(c)) for c in columns), float(np.mean([p.mean for p in found]))

    loose, apart, together, used = parts("os")
    assert loose > 0.6
    assert abs(used - apart) < abs(used - together)
    loose, apart, together, used = parts("auto")
    assert loose < 0.6
    assert apart > together
    assert abs(used - together) < abs(used - apart)


def test_score_is_exact_where_the_domain_is_deterministic():
    data, policy = collect("gridworld", "ros", episodes=3000)
    fit = score_regression(data, policy)
    assert fit.exact
    assert fit.value == pytest.approx(get_domain("gridworld").known_truth(policy).value, rel=1e-8)
    found = balanced_interval(fit, data.returns, fit.value, estimator="score")
    assert found.exact
    assert not found.fallback
    assert 0 < found.half_width < 1e-6
    assert found.note == "the scores explain every return"


def test_where_the_value_is_known_mc_gets_it_too_and_is_told_how_far_off_it_is():
    data, policy = collect("gridworld", "ros", episodes=3000)
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


def test_one_taking_of_an_action_is_not_proof():
    data, policy = collect("gridworld", "ros", episodes=400, seed=3)
    total = int(data.ends[-1])
    cells = data.observations[:total, 0] * 4 + data.actions[:total, 0]
    counts = np.unique(cells, return_counts=True)[1]
    fit = score_regression(data, policy)
    assert fit.exact == (fit.unseen == 0 and counts.min() >= 2)


# ---- formulas --------------------------------------------------------------------------------------------------


def test_student_t_and_clopper_pearson_against_scipy():
    x = np.random.default_rng(0).exponential(size=40)
    np.testing.assert_allclose(student_t(x, 0.9), stats.t.interval(0.9, 39, x.mean(), stats.sem(x)))
    for k in (0, 3, 190, 200):
        low, high = clopper_pearson(k, 200, 0.9)  # the shares at which k or more, and k or fewer, have a chance of 5 %
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
    few = balanced_interval(ScoreRegression(10.0, 0.01, 18, 0.02, 0.0), returns[:20], returns[:20].mean())
    low, high = student_t(returns[:20])
    assert few.fallback
    assert few.half_width >= (high - low) / 2
    other = balanced_interval(fit, returns, 10.5, estimator="wris")  # contains the interval of score
    assert other.low <= 10.0 - 1.96 * 0.01
    assert other.high >= 10.0 + 1.96 * 0.01


def test_iid_intervals_on_dependent_data_are_refused_unless_forced():
    data, policy = collect("bandit", "ros", episodes=200)
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
    off, _ = collect("bandit", "off", episodes=100)
    _, none = estimate_with_interval(off, policy, get_sampler("off"), mc)
    assert isinstance(none, NoInterval)
    assert "the behaviour is not near" in none.why


# ---- coverage --------------------------------------------------------------------------------------------------


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


def test_coverage_does_not_depend_on_workers():
    results = [coverage("cartpole", "ros/score", episodes=40, repeats=6, workers=w).to_json() for w in (1, 2)]
    assert results[0] == results[1]


def test_coverage_command(tmp_path):
    target = tmp_path / "coverage.json"
    shown = CliRunner().invoke(app, ["coverage", "bandit", "--episodes", "64", "--repeats", "20", "--json", str(target)])
    assert shown.exit_code == 0
    found = json.loads(target.read_text())
    wanted = {"coverage", "coverage_low", "coverage_high", "half_width", "oracle_ratio", "iid_ratio", "fallback", "repeats"}
    assert wanted <= found.keys()
    assert found["repeats"] == 20
    assert found["coverage_low"] <= found["coverage"] <= found["coverage_high"]


# ---- stopping --------------------------------------------------------------------------------------------------


def test_no_more_than_alpha_is_spent():
    assert sum(spending(k) for k in range(1, 60)) <= 1.0 + 1e-12
    assert Target.parse("5%").of(-40.0) == pytest.approx(2.0)
    assert Target.parse(0.5).of(7.0) == 0.5
    for bad in ("x", "-1", "0", "nan%"):
        with pytest.raises(SpecError, match="half-width"):
            Target.parse(bad)


def test_stopping_collects_the_same_data_as_one_run():
    stopped = evaluate("cartpole", half_width="6%", estimator="score", seed=2)
    assert stopped.half_width <= 0.06 * stopped.value
    again = evaluate("cartpole", episodes=stopped.episodes, estimator="score", seed=2)
    assert (again.value, again.steps) == (stopped.value, stopped.steps)
    assert again.half_width < stopped.half_width  # looking is paid for


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


def test_looking_with_initial_data_sees_it_once():
    domain = get_domain("gridworld")
    policy = domain.policy()
    first = collect("gridworld", "off", episodes=50)[0]

    def driver():
        return Driver(policy, get_sampler("ros", domain.paper), (1,), gamma=domain.gamma, horizon=domain.horizon,
                      record_steps=True, initial=first)  # fmt: skip

    def look(data, level):
        return 0.0, Interval(-1.0, 1.0, level, "score")

    looked = collect_until(driver(), domain.environment(None), look, Target(0.1), 0.95, 700)[0]
    once = driver().run(domain.environment(None), episodes=700)
    assert looked.initial_episodes == 50
    for name in ("steps", "returns", "ends", "terminated", "observations", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(looked, name), getattr(once, name))


def test_not_narrow_enough_is_said():
    found = evaluate("bandit", half_width=1e-4, episodes=500)
    assert found.episodes == 500
    assert "not enough" in found.note


def test_words():
    text = evaluate("cartpole", estimator="score", episodes=400).in_words()
    assert "95 %" in text
    assert "On-policy sampling would need about" in text
    assert "exact up to rounding" in evaluate("gridworld", estimator="score", episodes=3000).in_words()
    assert isinstance(get_domain("gridworld").policy(), TabularSoftmax)
