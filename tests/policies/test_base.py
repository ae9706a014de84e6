"""Scores of every kind of policy against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.policies import Policy, TabularSoftmax
from tests.helpers import make_mlp


def finite_differences(policy: Policy, make, obs, action) -> np.ndarray:
    """Central differences of log π along each parameter."""
    step = 1e-6
    gradient = np.zeros(policy.parameters)
    for i in range(policy.parameters):
        e = np.zeros(policy.parameters)
        e[i] = step
        gradient[i] = (make(policy.theta + e).log_prob(obs, action) - make(policy.theta - e).log_prob(obs, action)) / (
            2 * step
        )
    return gradient


def test_scores_equal_finite_differences() -> None:
    rng = np.random.default_rng(4)
    table = TabularSoftmax(rng.normal(size=(3, 4)))
    rebuilt = lambda theta: TabularSoftmax(theta.reshape(3, 4))  # noqa: E731
    np.testing.assert_allclose(table.score([1], [2]), finite_differences(table, rebuilt, [1], [2]), atol=1e-8)
    for options in ({}, {"head": "gaussian"}):
        policy = make_mlp(rng, widths=(3, 8, 5), **options)
        obs, action = rng.normal(size=3), [1.0]
        np.testing.assert_allclose(
            policy.score(obs, action), finite_differences(policy, policy.with_theta, obs, action), atol=1e-7
        )


def test_sums_of_scores_are_sums_of_scores() -> None:
    """Weighted and not, of many steps, against one at a time."""
    rng = np.random.default_rng(5)
    policy = make_mlp(rng, widths=(3, 8, 5))
    seen, taken, weights = rng.normal(size=(7, 3)), rng.integers(2, size=(7, 1)).astype(float), rng.normal(size=7)
    scores = np.array([policy.score(o, a) for o, a in zip(seen, taken, strict=True)])
    np.testing.assert_allclose(policy.score_sum(seen, taken), scores.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(policy.score_sum(seen, taken, weights), weights @ scores, atol=1e-12)
    assert not policy.score_sum(seen[:0], taken[:0]).any()


def test_outputs_of_a_table_are_its_logits() -> None:
    logits = np.log([[0.2, 0.8], [0.6, 0.4]])
    policy = TabularSoftmax(logits)
    for state in range(2):
        out = policy.outputs([state])
        np.testing.assert_allclose(out - out[0], logits[state] - logits[state, 0], atol=1e-12)
        assert policy.log_prob([state], [1]) == pytest.approx(logits[state, 1])
