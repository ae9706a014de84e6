"""Regression on the scores: the scores, the model behind them, folds apart, and what is left."""

from __future__ import annotations

import numpy as np
import pytest

import evenroll
from evenroll.domains.catalogue import get_domain
from evenroll.estimators.action_part import ActionPart
from evenroll.estimators.corrections import corrections
from evenroll.estimators.score_regression import action_parts, regress, score_regression


def test_the_regression_is_the_mean_of_what_is_left(base_seed: int) -> None:
    """The error is that of a mean of the corrected values, whose variance pays for every slope."""
    rng = np.random.default_rng(base_seed)
    C = rng.normal(0.3, 1.0, (2, 50))
    gaps = 4.0 + 2.0 * C[0] + 3.0 * C[1] + rng.normal(size=50)
    parts = [ActionPart(c[:, None], lambda way: 0.0, loose=1.0, unseen=u) for c, u in zip(C, (0.0, 0.1), strict=True)]
    fit = regress(gaps, parts)
    made = corrections(gaps, parts)
    left = gaps - made.actions
    assert (fit.value, fit.freedom) == pytest.approx((left.mean(), 49))
    assert fit.error == pytest.approx(np.sqrt(left.var(ddof=1) * 49 / 47 / 50))
    assert fit.imbalance == pytest.approx(gaps.mean() - left.mean())
    assert fit.unseen == 0.1
    assert fit.actions.value == pytest.approx(1.0 - left.var() / gaps.var())
    assert 0.0 < fit.actions.error < 0.1


def test_few_episodes_of_a_network_are_left_as_they_are() -> None:
    """What the actions of seven episodes are worth is known from six others, and that costs more than it brings."""
    policy = get_domain("cartpole").policy()
    for n, parts in ((7, 0), (8, 1)):
        data = evenroll.evaluate("cartpole", policy, episodes=n, sampler="os", resets=0).rollouts
        assert data is not None
        assert len(action_parts(data, policy)) == parts
        assert (score_regression(data, policy).value == data.returns.mean()) == (parts == 0)


def test_squares_that_overflow_leave_the_mean() -> None:
    fit = regress(np.array([1e200, 2e200, 3e200]), [])
    assert (fit.value, fit.error) == (2e200, np.inf)
