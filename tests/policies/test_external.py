"""Policies whose network runs elsewhere: the mathematics of their outputs against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.policies import External


def test_factors_are_independent_categoricals() -> None:
    """log π, its score and a tilt of a multi-discrete policy, against the definition."""
    rng = np.random.default_rng(0)
    policy = External(2, choices=(2, 3))
    for _ in range(10):
        psi, out = rng.standard_normal(2), rng.standard_normal(5)
        action = np.array([rng.integers(2), rng.integers(3)], dtype=float)
        p = np.concatenate([np.exp(x) / np.exp(x).sum() for x in (out[:2], out[2:])])
        chosen = [int(action[0]), 2 + int(action[1])]
        observation = np.append(psi, out)
        assert policy.log_prob(observation, action) == pytest.approx(np.log(p[chosen]).sum(), abs=1e-12)
        score = np.eye(5)[chosen].sum(axis=0) - p
        np.testing.assert_allclose(
            policy.score(observation, action), np.outer(score, np.append(psi, 1.0)).ravel(), atol=1e-6
        )
        np.testing.assert_allclose(policy.distribution.scores(out[None], action[None])[0], score, atol=1e-12)
        np.testing.assert_allclose(
            policy.distribution.log_probs(out[None], action[None]), np.log(p[chosen]).sum(), atol=1e-12
        )


@pytest.mark.parametrize("c", [0.5, 1.0])
def test_outputs_at_a_step_are_linear_in_the_features(c: float) -> None:
    """At θ − c·vector each output is smaller by c times the product of its part of the vector with the features and 1."""
    rng = np.random.default_rng(1)
    policy = External(2, choices=(3,))
    psi, out, vector = rng.standard_normal(2), rng.standard_normal(3), rng.standard_normal(9).astype(policy.dtype)
    expected = out - c * vector.reshape(3, 3) @ np.append(psi, 1.0)
    np.testing.assert_allclose(policy.outputs(np.append(psi, out), vector, c), expected, atol=1e-6)
    np.testing.assert_allclose(policy.outputs(np.append(psi, out)), out, atol=1e-12)
