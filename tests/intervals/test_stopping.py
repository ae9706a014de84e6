"""Stopping: no more than α is spent, and looking changes no data."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import numpy as np
import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.evaluation.evaluate import evaluate
from evenroll.intervals.independent import Interval, NoInterval, student_quantile
from evenroll.intervals.stopping import Target, for_few, look_until, spending
from evenroll.samplers.table import get_sampler
from tests.helpers import trial


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


def test_looking_with_initial_data_sees_it_once():
    domain = get_domain("gridworld")
    policy = domain.policy()
    first = trial("gridworld", "off", episodes=50)

    def driver():
        return Driver(policy, get_sampler("ros", domain.paper), (1,), gamma=domain.gamma, horizon=domain.horizon,
                      record_steps=True, initial=first)  # fmt: skip

    def look(data, level):
        return 0.0, Interval(-1.0, 1.0, level, "score")

    running, parts = driver(), []

    def collect(episodes):
        parts.append(running.run(domain.environment(None), episodes=episodes))
        return functools.reduce(lambda data, new: data.continued(new), parts)

    looked = look_until(collect, look, Target(0.1), 0.95, 700)[0]
    once = driver().run(domain.environment(None), episodes=700)
    assert looked.initial_episodes == 50
    for name in ("steps", "returns", "ends", "terminated", "observations", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(looked, name), getattr(once, name))


def scripted(spread, skewness=None, first_without=0):
    """(asked, levels, collect, look): looks whose half-width is t·spread/√n, and what was asked of them."""
    asked, levels = [], []

    def collect(n):
        asked.append(n)
        return SimpleNamespace(episodes=n)

    def look(data, level):
        levels.append(level)
        if data.episodes < first_without:
            return 3.0, NoInterval("all returns were equal")
        half = student_quantile(level, data.episodes - 1) * spread / data.episodes**0.5
        return 3.0, Interval(3.0 - half, 3.0 + half, level, "t", skewness=skewness)

    return asked, levels, collect, look


def test_looks_plan_until_the_goal_is_near():
    """±1 with a spread of 5 needs 100 episodes and some. Looks come at 1.5 times the last, and the last one where the
    prediction says, with its margin: t(0.955)·5/√n = 1 at n = 104. What is far away ends at the most, and says so."""
    asked, levels, collect, look = scripted(5.0)
    _, value, found = look_until(collect, look, Target(1.0), 0.95, 100_000)
    assert asked[:-1] == [10, 16, 25, 38, 58, 88]
    assert asked[-1] == pytest.approx(1.2 * 104, abs=2)
    assert levels == pytest.approx([0.955] * len(levels))
    assert (value, found.confidence, found.note) == (3.0, 0.95, None)
    assert found.half_width <= 1.0
    asked, _, collect, look = scripted(5.0)
    far = look_until(collect, look, Target(0.001), 0.95, 500)[2]
    assert asked[-2:] == [452, 500]
    assert far.note == "500 episodes are not enough for ± 0.001"


def test_a_wide_goal_is_met_with_twelve_episodes_and_never_at_the_first_look():
    asked, _, collect, look = scripted(1.0)
    assert look_until(collect, look, Target(10.0), 0.95, 1000)[2].half_width < 10.0
    assert asked == [10, 12]


def test_a_look_that_may_stop_and_does_not_is_paid_for():
    """The spread grows by 1.3 at the look that was to be the last one: the next one spends a twentieth of α."""
    asked, levels, collect, look = scripted(1.0)

    def worse(data, level):
        value, interval = look(data, level)
        far = 1.3 * interval.half_width if data.episodes > 10 else interval.half_width
        return value, Interval(value - far, value + far, level, "t")

    found = look_until(collect, worse, Target(0.7), 0.95, 1000)[2]
    assert found.half_width <= 0.7
    assert levels == pytest.approx([0.955, 0.955, 1 - 0.05 * 0.05])
    assert asked[0] == 10 < asked[1] <= 15


def test_few_and_skewed_returns_widen_the_interval():
    narrow = Interval(2.0, 5.0, 0.95, "t", skewness=2.0)
    assert (for_few(narrow, 3.0, 40).low, for_few(narrow, 3.0, 40).high) == pytest.approx((1.5, 6.0))  # 1 + 20/40
    counted = Interval(2.0, 5.0, 0.95, "binomial")
    assert for_few(counted, 3.0, 40) == counted
    asked, _, collect, look = scripted(5.0, skewness=3.0)
    look_until(collect, look, Target(1.0), 0.95, 100_000)
    assert asked[-1] > 1.3 * 104  # more episodes than without skewness


def test_equal_returns_at_the_first_looks_are_waited_out():
    """Ten equal returns have no interval. More of them may have one, so that is no reason to end; 200 equal ones are."""
    asked, _, collect, look = scripted(1.0, first_without=30)
    assert isinstance(look_until(collect, look, Target(0.5), 0.95, 1000)[2], Interval)
    assert asked[:3] == [10, 20, 40]
    asked, _, collect, look = scripted(1.0, first_without=10_000)
    assert isinstance(look_until(collect, look, Target(0.5), 0.95, 1000)[2], NoInterval)
    assert asked == [10, 20, 40, 80, 160, 200]


def test_the_widened_interval_stays_within_the_bounds():
    found = evaluate("bandit", sampler="os", estimator="mc", half_width=5.0, bounds=(-2.0, 6.0))
    assert found.episodes < 30
    assert -2.0 <= found.low < found.high <= 6.0
