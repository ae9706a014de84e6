"""Scores of every kind of policy against finite differences."""

from __future__ import annotations

import numpy as np

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
