"""Stopping: no more than α is spent, and looking changes no data."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.evaluation.evaluate import evaluate
from evenroll.intervals.independent import Interval
from evenroll.intervals.stopping import Target, collect_until, spending
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
