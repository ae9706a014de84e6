"""Where the noise comes from, in words: what was found, what was looked for in vain, and what an estimate does about it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import evenroll
from evenroll.estimators.score_regression import ScoreRegression, Share
from evenroll.estimators.variance_components import Component, Components
from evenroll.evaluation.noise import NoiseBudget, noise_budget, split

LEFT = "the environment's own noise, and what 64 episodes do not show"


@pytest.mark.parametrize(
    ("actions", "starts", "words"),
    [
        (
            (0.234, 0.041),
            (0.1, 0.02),
            "Of the variance of one return, 23% ± 4% luck of the policy's choices and 10% ± 2% luck of the start was found "
            f"and is taken out; 40% is left: {LEFT}",
        ),
        (
            (0.234, 0.041),
            (0.004, 0.0),
            "Of the variance of one return, 23% ± 4% luck of the policy's choices was found and is taken out, and no luck "
            f"of the start (± 1%); 40% is left: {LEFT}",
        ),
        (
            (0.0, 0.03),
            (0.0, 0.0),
            "No luck of the policy's choices (± 3%) and no luck of the start (± 1%) was found in the returns: their "
            f"variance is {LEFT}",
        ),
        ((0.0, 0.0), None, f"No luck of the policy's choices (± 1%) was found in the returns: their variance is {LEFT}"),
    ],
)
def test_what_was_found_and_what_was_not(actions, starts, words: str) -> None:
    """ "0% … was found and is taken out" was said of nothing."""
    budget = NoiseBudget(*actions, *(starts or (None, None)), 0.4)
    assert budget.in_words(64, known=True, taken_out=True) == words
    assert budget.in_words(64, known=True, taken_out=False) == words.replace(" and is taken out", "")


def test_nothing_is_said_where_nothing_was_looked_for() -> None:
    assert NoiseBudget(0.0, 0.0, None, None, 1.0).in_words(64, known=False, taken_out=True) == ""
    only = NoiseBudget(0.0, 0.0, 0.3, 0.1, 0.7).in_words(64, known=False, taken_out=True)
    assert only.startswith(
        "Of the variance of one return, 30% ± 10% luck of the start was found and is taken out; 70% is left"
    )


def test_the_budget_of_a_fit() -> None:
    fit = ScoreRegression(1.0, 0.1, 10, 0.0, 0.0, actions=Share(0.25, 0.03), starts=Share(0.125, 0.02))
    assert noise_budget(fit, 8) == NoiseBudget(0.25, 0.03, 0.125, 0.02, 0.625)
    assert noise_budget(fit, 7) is None
    assert noise_budget(None, 100) is None
    alone = ScoreRegression(1.0, 0.1, 10, 0.0, 0.0, actions=Share(1.5, 0.03))
    assert noise_budget(alone, 8) == NoiseBudget(1.0, 0.03, None, None, 0.0)
    more = ScoreRegression(1.0, 0.1, 10, 0.0, 0.0, actions=Share(0.0, 0.0), starts=Share(1.00003, 0.02))
    assert noise_budget(more, 8) == NoiseBudget(0.0, 0.0, 1.0, 0.02, 0.0)
    assert noise_budget(ScoreRegression(1.0, 0.1, 10, 0.0, 0.0, actions=Share(math.nan, 0.0)), 8) is None


def test_a_plain_mean_takes_nothing_out() -> None:
    """The share is the same whatever the estimate. Only `score` takes it out of the value."""
    score = evenroll.evaluate("gridworld", sampler="os", episodes=100, resets=0)
    plain = evenroll.evaluate("gridworld", sampler="os", episodes=100, resets=0, estimator="mc")
    assert score.noise == plain.noise
    assert score.noise.actions > 0.1
    assert "luck of the policy's choices was found and is taken out" in score.in_words()
    assert "luck of the policy's choices was found; " in plain.in_words()


def test_what_is_left_is_told_apart_where_the_components_allow():
    """Found 0.4 and 0.1; there are 0.6 and 0.1: so 0.2 of the actions is left, and 0.3 is the environment."""
    found = NoiseBudget(0.4, 0.05, 0.1, 0.05, 0.5)
    told = split(found, Components(Component(0.6, 0.1), Component(0.1, 0.05)))
    assert (told.actions_left, told.starts_left, told.environment) == pytest.approx((0.2, 0.0, 0.3))
    assert told.left_error == pytest.approx(np.hypot(0.1, 0.05))
    assert "20% choices and 0% starts whose worth 64 episodes do not show (± 11%)" in told.in_words(64, True, True)
    more = split(found, Components(Component(1.5, 0.1), Component(0.1, 0.05)))  # never more than is left
    assert (more.actions_left, more.environment) == pytest.approx((0.5, 0.0))


def test_what_is_too_rough_is_not_told_apart():
    found = NoiseBudget(0.4, 0.05, 0.0, 0.01, 0.6)
    rough = split(found, Components(Component(0.6, 0.5), Component(0.1, 0.05)))
    assert rough == found
    assert "the environment's own noise, and what 10 episodes do not show" in rough.in_words(10, True, True)
    assert "no luck of the start" in rough.in_words(10, True, True)


def test_an_environment_that_leaves_nothing_to_chance_has_no_noise():
    found = NoiseBudget(0.4, 0.05, 0.1, 0.05, 0.5, certain=True)
    told = split(found, Components(Component(0.6, 0.9), Component(0.3, 0.9)))
    assert (told.actions_left, told.starts_left, told.environment) == pytest.approx((0.25, 0.25, 0.0))
    assert "environment" not in told.in_words(64, True, True)
    nothing = split(found, Components(Component(-1.0, 0.9), None))
    assert (nothing.actions_left, nothing.environment) == pytest.approx((0.5, 0.0))
