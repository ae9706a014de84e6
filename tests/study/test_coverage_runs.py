"""One run of a coverage study is an evaluation, and its beginnings are those of a smaller one."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.adapters.model import as_model
from evenroll.collection.resets import STEPS_PER_RESET
from evenroll.domains.catalogue import get_domain
from evenroll.estimators import get_estimator
from evenroll.evaluation.looking import Look
from evenroll.intervals.stopping import Target
from evenroll.samplers.table import get_sampler
from evenroll.study.coverage_runs import COLUMNS, Runs, beginning, one_run

LOOKS = tuple(Look(get_estimator(name)) for name in ("score", "mc"))


def runs(**settings) -> Runs:
    domain = get_domain("cartpole")
    return Runs(domain, domain.policy(), get_sampler("auto", domain.paper), LOOKS, confidence=0.95, **settings)


def test_a_run_is_an_evaluation_at_each_of_its_sizes():
    """The same numbers as `evaluate` with the run's seed: value, interval, steps."""
    settings = runs(sizes=(12, 30))
    seed = settings.source(3).seed
    found = one_run(settings, 3)
    assert found.shape == (2, 2, len(COLUMNS))
    for i, n in enumerate(settings.sizes):
        for j, name in enumerate(("score", "mc")):
            alone = evenroll.evaluate("cartpole", episodes=n, estimator=name, seed=seed)
            row = dict(zip(COLUMNS, found[i, j], strict=True))
            assert (row["estimate"], row["low"], row["high"]) == pytest.approx((alone.value, alone.low, alone.high))
            assert (row["episodes"], row["steps"]) == (n, alone.steps)


def test_a_run_that_stops_is_an_evaluation_that_stops():
    settings = runs(sizes=(1000,), target=Target.parse("15%"))
    found = dict(zip(COLUMNS, one_run(settings, 0)[0, 1], strict=True))
    alone = evenroll.evaluate("cartpole", estimator="mc", half_width="15%", episodes=1000, seed=settings.source(0).seed)
    assert (found["estimate"], found["low"], found["episodes"]) == pytest.approx((alone.value, alone.low, alone.episodes))


def test_beginnings_have_the_resets_that_belong_to_them():
    source = runs(sizes=(30,)).source(0)
    list(source.collect(30, None, at_once=True))
    data = source.rollouts()
    part = beginning(data, 12)
    assert part.episodes == 12
    assert len(part.resets) == part.steps // STEPS_PER_RESET
    assert len(beginning(data, 12, resets=50).resets) == len(data.resets)  # a number of one's own is for any size
    assert beginning(data, 30) is data


def test_runs_of_an_environment_differ_from_each_other_and_not_from_themselves():
    env = gym.make("CartPole-v1")
    model = as_model(lambda obs: np.array([0.4, 0.6]), env.observation_space, env.action_space)
    settings = Runs(env, model, get_sampler("auto"), LOOKS, (8,), 0.95, gamma=0.99)
    told: list[int] = []
    first, again, other = one_run(settings, 0, told.append), one_run(settings, 0), one_run(settings, 1)
    np.testing.assert_array_equal(first, again)
    assert (first[0, 0, 0], sum(told)) != (other[0, 0, 0], 0)
    assert sum(told) == 8
