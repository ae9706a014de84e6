"""Intervals of shares: equal returns are never certain, two values are counted, a few rare returns are not trusted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats

import evenroll
from evenroll import Driver, TabularSoftmax, get_domain, tabular_domain
from evenroll.errors import SpecError
from evenroll.estimators import get_estimator
from evenroll.estimators.score_regression import ScoreRegression
from evenroll.intervals.balanced import estimate_with_interval, outcomes_interval
from evenroll.intervals.independent import Interval, NoInterval, binomial
from evenroll.intervals.outcomes import (
    around,
    as_far_as_seen,
    check_bounds,
    effective_outcomes,
    equal_returns,
    other_outcomes,
    rare_differences,
    rare_outcomes,
    two_values,
    within,
)
from evenroll.samplers.table import get_sampler
from tests.helpers import trial


class Coin(gym.Env):
    """One step: a success with this probability, whatever the action."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, chance: float) -> None:
        self.chance = chance

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        won = bool(self.np_random.random() < self.chance)
        return np.zeros(1, np.float32), float(won), True, False, {"is_success": won}


def either(observation: Any) -> list[float]:
    return [0.5, 0.5]


def test_an_outcome_that_was_not_seen_in_n_may_have_the_share_that_shows_itself_in_all_but_a_fortieth_of_runs() -> None:
    assert (1.0 - other_outcomes(50, 0.95)) ** 50 == pytest.approx(0.025)
    assert other_outcomes(50, 0.95) == pytest.approx(3.6 / 50, rel=0.05)


@pytest.mark.parametrize("sampler", ["os", "auto"])
@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_equal_returns_are_never_certain(sampler: str, chance: float) -> None:
    found = evenroll.evaluate(Coin(chance), either, sampler=sampler, episodes=50)
    assert found.value == chance
    assert found.low is None
    assert "all 50 returns were equal" in str(found.why)
    assert "±" not in str(found)
    assert "(no interval)" in str(found)
    assert found.action_share is None  # there is no variance to share
    assert "balancing" not in found.in_words().lower()
    success = found.quantities["success"]
    limit = other_outcomes(50, 0.95)
    assert (success.low, success.high) == pytest.approx((0.0, limit) if chance == 0.0 else (1.0 - limit, 1.0))
    known = evenroll.evaluate(Coin(chance), either, sampler=sampler, episodes=50, bounds=(0.0, 1.0))
    assert (known.low, known.high) == pytest.approx((success.low, success.high))
    assert "all 50 returns were equal" in str(known.note)


@pytest.mark.parametrize("kind", ["t", "bca"])
def test_equal_returns_have_no_interval_of_any_kind_but_bernstein(kind: str) -> None:
    assert evenroll.evaluate(Coin(0.0), either, sampler="os", episodes=20, interval=kind).low is None
    bernstein = evenroll.evaluate(Coin(0.0), either, sampler="os", episodes=20, interval="bernstein", bounds=(0.0, 1.0))
    assert bernstein.low == 0.0
    assert bernstein.high is not None
    assert bernstein.high > 0.3


def test_stopping_on_equal_returns_says_what_it_rests_on() -> None:
    found = evenroll.evaluate(Coin(1.0), either, half_width="5%", episodes=1000)
    assert found.low is None
    assert f"all {found.episodes} returns were equal" in str(found.why)
    known = evenroll.evaluate(Coin(1.0), either, half_width=0.005, episodes=5000, bounds=(0.0, 1.0))
    assert known.episodes > 400  # 3.7/400 is no half-width of 0.005
    assert known.half_width is not None
    assert known.half_width <= 0.005
    assert "returns were equal" in str(known.note)


def test_equal_returns_of_a_table_are_not_exact_either() -> None:
    """A model that explains equal returns explains nothing: FrozenLake without a success."""
    table = TabularSoftmax(np.zeros((2, 2)))
    stay = np.zeros((2, 2, 2))
    stay[:, :, 1] = 1.0
    domain = tabular_domain("nothing", stay, np.zeros((2, 2)), [1.0, 0.0], [0.0, 1.0], horizon=2)
    found = evenroll.evaluate(domain, table, episodes=64)
    assert found.low is None
    assert not found.exact


def test_infinite_bounds_do_not_help() -> None:
    found = equal_returns(3.0, 20, 0.95, (0.0, np.inf))
    assert isinstance(found, NoInterval)
    assert "nothing bounds" in found.why


def test_two_values_of_independent_returns_have_the_exact_binomial_interval() -> None:
    found = evenroll.evaluate(Coin(0.2), either, sampler="os", estimator="mc", episodes=40, seed=3)
    x = round(found.value * 40)
    assert 0 < x < 40
    assert found.interval == "binomial"
    assert (found.low, found.high) == pytest.approx(stats.binomtest(x, 40).proportion_ci(0.95, method="exact"))
    assert "±" not in str(found)
    assert f"{found.low:.3g} … {found.high:.3g}" in str(found)


@pytest.mark.parametrize("episodes", [5, 8, 12])
def test_few_outcomes_are_worth_no_more_than_they_are(episodes: int) -> None:
    """Their interval is that of independent outcomes, so as many on-policy episodes have it, too (7 were told of 5)."""
    found = evenroll.evaluate(Coin(0.5), either, episodes=episodes, seed=3)
    assert "as wide as for independent trajectories" in str(found.note)
    assert found.on_policy_episodes is not None
    assert found.on_policy_episodes <= episodes


def test_two_other_values_are_scaled() -> None:
    data = trial("bandit", "os", episodes=30)
    wins = np.arange(30) < 9
    for low, high in ((0.0, 1.0), (-5.0, 5.0)):
        changed = replace(data, returns=np.where(wins, high, low))
        _, found = estimate_with_interval(changed, get_domain("bandit").policy(), get_sampler("os"), get_estimator("mc"))
        assert isinstance(found, Interval)
        shares = [(end - low) / (high - low) for end in (found.low, found.high)]
        assert shares == pytest.approx(binomial(9, 30))


def test_no_interval_leaves_the_bounds() -> None:
    interval = Interval(-1.0, 4.0, 0.95, "t")
    assert (within(interval, (0.0, 3.0)).low, within(interval, (0.0, 3.0)).high) == (0.0, 3.0)
    assert within(interval, None) is interval
    found = evenroll.evaluate("cartpole", sampler="os", episodes=5, bounds=(1.0, 60.0))
    assert found.high is not None
    assert found.high <= 60.0
    with pytest.raises(SpecError, match="outside the bounds 0 … 1"):
        evenroll.evaluate("cartpole", episodes=5, bounds=(0.0, 1.0))
    with pytest.raises(SpecError, match="outside the bounds"):
        check_bounds(np.ones(3), (2.0, 0.0))


def test_few_returns_that_differ_from_all_others_widen_the_interval() -> None:
    returns = np.zeros(50)
    returns[:2] = 0.9, 0.7
    low, high, note = rare_outcomes(returns, 0.95) or (0.0, 0.0, "")
    assert (low, high) == pytest.approx(tuple(0.8 * end for end in binomial(2, 50)))
    assert note == "48 of 50 returns are equal, so the interval rests on 2 others"
    wide = around(Interval(-0.01, 0.05, 0.95, "t"), (low, high, note))
    assert (wide.low, wide.high, wide.note) == (-0.01, high, note)
    mirrored = rare_outcomes(-returns, 0.95)
    assert mirrored is not None
    assert mirrored[:2] == (-high, -low)
    returns[:10] = np.arange(1, 11)
    assert rare_outcomes(returns, 0.95) is None  # ten others can be trusted
    assert rare_outcomes(np.arange(8.0), 0.95) is None  # no value dominates


def test_rare_differences_may_lie_on_either_side() -> None:
    gaps = np.zeros(40)
    gaps[0] = 2.0
    low, high, note = rare_differences(gaps, 0.95) or (0.0, 0.0, "")
    assert high == pytest.approx(2.0 * binomial(1, 40, 0.975)[1])
    assert low == pytest.approx(2.0 * (binomial(1, 40, 0.975)[0] - binomial(0, 40, 0.975)[1]))
    assert "39 of 40 differences" in note
    assert rare_differences(np.arange(30.0), 0.95) is None


def test_two_values_are_recognised() -> None:
    assert two_values(np.array([1.0, 3.0, 1.0])) == (1.0, 3.0)
    assert two_values(np.array([1.0, 3.0, 2.0])) is None
    assert two_values(np.ones(4)) is None


def test_effective_outcomes_are_those_of_the_standard_error() -> None:
    error = np.sqrt(0.2 * 0.8 / 400)  # as 400 independent outcomes have
    assert effective_outcomes(0.2, error, 98, 100, 0.95) == pytest.approx(400, rel=0.01)
    assert effective_outcomes(0.2, error, 3, 100, 0.95) < 200  # little is known of the error itself
    for nothing in (0.0, 1.8e-17):  # what is left of an error when everything is explained is rounding
        assert effective_outcomes(0.2, nothing, 98, 100, 0.95) == 100


def shares_of(often: int, n: int, estimate: float, fit: ScoreRegression) -> tuple[Interval, tuple[float, float]]:
    """The interval of `often` returns of 6 among n that are −4 otherwise, and its ends as shares of the way between them."""
    found = outcomes_interval(fit, np.where(np.arange(n) < often, 6.0, -4.0), (-4.0, 6.0), estimate, 0.95)
    return found, ((found.low + 4.0) / 10.0, (found.high + 4.0) / 10.0)


def test_balanced_outcomes_by_hand() -> None:
    """The share is the regression's, 0.42, and so is the number of outcomes that it is worth; the estimate lies within."""
    fit = ScoreRegression(0.2, 0.3, 97, 0.0, 0.0)
    found, ends = shares_of(40, 100, 0.2, fit)
    worth = 0.42 * 0.58 / 0.03**2 * (stats.t.ppf(0.975, 99) / stats.t.ppf(0.975, 97)) ** 2
    assert ends == pytest.approx(binomial(0.42 * worth, worth))
    assert (found.kind, found.fallback, found.note) == ("score", False, "returns are -4 or 6")
    _, unseen = shares_of(40, 100, 0.2, replace(fit, unseen=0.05))
    assert unseen == pytest.approx((ends[0] - 0.05, ends[1] + 0.05))
    _, below = shares_of(40, 100, -2.0, fit)
    assert below == pytest.approx((0.2, ends[1]))
    _, above = shares_of(40, 100, 4.0, fit)
    assert above == pytest.approx((ends[0], 0.8))
    _, all_of_it = shares_of(40, 100, 0.2, replace(fit, unseen=0.9))
    assert all_of_it == (0.0, 1.0)


@pytest.mark.parametrize(("often", "n", "trusted"), [(9, 100, False), (10, 100, True), (90, 100, True), (91, 100, False)])
def test_rare_outcomes_are_counted_as_independent_ones(often: int, n: int, trusted: bool) -> None:
    """Fewer than ten of a kind do not show how much balancing has helped: then the share is that of the returns."""
    fit = ScoreRegression(-4.0 + 10.0 * 0.3, 0.2, 97, 0.0, 0.0)
    found, ends = shares_of(often, n, fit.value, fit)
    assert found.fallback is not trusted
    assert ("as wide as for independent trajectories" in str(found.note)) is not trusted
    if not trusted:
        low, high = binomial(often, n)
        assert ends == pytest.approx((min(low, 0.3), max(high, 0.3)))


@pytest.mark.statistical
@pytest.mark.parametrize("chance", [0.03, 0.5])
def test_balanced_outcomes_are_covered(chance: float, base_seed: int) -> None:
    """Success by choice and by luck, 50 episodes of auto: the interval holds the exact rate.
    P(false) ≤ 1e-5 at a coverage of 0.95: 37 or more of 400 miss. Catches a coverage below 0.87 (1e-3 to miss it), such as
    that of the spread alone (0.79 at 0.03)."""
    good, bad = 1.6 * chance, 0.4 * chance
    transitions = np.zeros((4, 2, 4))
    transitions[0, 0, [1, 2]] = good, 1.0 - good
    transitions[0, 1, [1, 2]] = bad, 1.0 - bad
    transitions[1:, :, 3] = 1.0
    rewards = np.zeros((4, 2))
    rewards[1] = 1.0
    domain = tabular_domain("luck", transitions, rewards, np.eye(4)[0], np.eye(4)[3], horizon=2)
    policy, sampler, mean = TabularSoftmax(np.zeros((4, 2))), get_sampler("auto"), get_estimator("mc")
    missed = 0
    for i in range(400):
        driver = Driver(policy, sampler, (base_seed, i), gamma=1.0, horizon=2, record_steps=True)
        data = driver.run(domain.environment(None), episodes=50)
        _, found = estimate_with_interval(data, policy, sampler, mean, bounds=(0.0, 1.0))
        assert isinstance(found, Interval)
        assert 0.0 <= found.low < found.high <= 1.0
        missed += not found.low <= chance <= found.high
    assert missed < 37


@pytest.mark.statistical
def test_what_was_not_seen_is_in_an_interval_that_would_be_exact(base_seed: int) -> None:
    """Actions settle all but one episode in a hundred, and 50 episodes of auto explain every return in 60 % of the runs.
    P(false) ≤ 1e-5 at a coverage of 0.95: 22 or more of 150 miss. Catches an interval of no width (0.4 covered)."""
    transitions = np.zeros((4, 3, 4))
    transitions[0, :, 1], transitions[0, :, 2] = 0.99, 0.01
    transitions[1:, :, 3] = 1.0
    rewards = np.zeros((4, 3))
    rewards[0], rewards[2] = (0.0, 1.0, 3.0), -2.0
    domain = tabular_domain("trap", transitions, rewards, np.eye(4)[0], np.eye(4)[3], horizon=2)
    policy = TabularSoftmax(np.zeros((4, 3)))
    value = domain.known_truth(policy).value  # type: ignore[union-attr]
    found = [evenroll.evaluate(domain, policy, episodes=50, seed=base_seed + i) for i in range(150)]
    assert not any(each.exact for each in found)
    assert sum("was not seen" in str(each.note) for each in found) > 50
    assert sum(not each.low <= value <= each.high for each in found) < 22  # type: ignore[operator]


def test_an_exact_interval_is_as_wide_as_what_was_not_seen() -> None:
    returns = np.array([0.0, 4.0, 2.0, 2.0])
    found = as_far_as_seen(Interval(2.0, 2.0, 0.95, "score", "known", exact=True), returns, 0.95)
    half = 4.0 * other_outcomes(4, 0.95)
    assert (found.low, found.high) == pytest.approx((2.0 - half, 2.0 + half))
    assert not found.exact
    assert found.fallback
    assert str(found.note).startswith("known; an outcome that was not seen")
