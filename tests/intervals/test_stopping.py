"""Stopping: no more than α is spent, and looking changes no data."""

from __future__ import annotations

from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.evaluation.evaluate import evaluate
from evenroll.intervals.independent import Interval
from evenroll.intervals.stopping import Target, collect_until, look_until, spending
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

    looked = collect_until(driver(), domain.environment(None), look, Target(0.1), 0.95, 700)[0]
    once = driver().run(domain.environment(None), episodes=700)
    assert looked.initial_episodes == 50
    for name in ("steps", "returns", "ends", "terminated", "observations", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(looked, name), getattr(once, name))


def test_the_second_look_is_planned_by_the_first():
    """200 episodes with a half-width of 2 when 1 is wanted: four times the data, for the level of the second look, and a
    third more. What is far away is approached in steps of sixteen, and the last look says that it was the last."""
    asked, levels = [], []

    def quantile(level):
        return NormalDist().inv_cdf(0.5 + level / 2)

    def collect(n):
        asked.append(n)
        return SimpleNamespace(episodes=n)

    def look(data, level):
        levels.append(level)
        half = 2.0 * quantile(level) / quantile(0.995) * (200 / data.episodes) ** 0.5
        return 3.0, Interval(3.0 - half, 3.0 + half, level, "t")

    _, value, found = look_until(collect, look, Target(1.0), 0.95, 100_000)
    assert asked == [200, int(200 * 4.0 * (quantile(0.96) / quantile(0.995)) ** 2 * 1.3) + 1]
    assert levels == pytest.approx([0.995, 0.96])
    assert (value, found.confidence, found.note) == (3.0, 0.95, None)
    assert found.half_width <= 1.0
    asked.clear()
    far = look_until(collect, look, Target(0.001), 0.95, 5000)[2]
    assert asked == [200, 3201, 5000]
    assert far.note == "5000 episodes are not enough for ± 0.001"
