"""Policies whose network runs elsewhere: the mathematics of their outputs against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import float64, void

from evenroll.engine.pieces import compiled, number_type, pointer
from evenroll.policies import External
from evenroll.policies.heads import LEAST_RATIO
from evenroll.policies.interface import drift, forward, policy_arrays, policy_of, tilt


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


def _drift_kernel(policy_arrays: Any, vector: Any, obs: Any, by: Any, x: Any) -> None:
    policy = policy_of(policy_arrays)
    forward(policy, pointer(vector), 0.0, pointer(obs))
    tilt(policy, pointer(by), np.inf)
    drift(policy, pointer(x))


@pytest.mark.parametrize("policy", [External(2, choices=(3,)), External(2, choices=(2, 3)), External(2, gaussian=2)])
def test_the_drift_is_the_mean_of_the_scores_under_the_tilt(policy: External) -> None:
    """Discrete: π_b − π_e with π_b ∝ π_e · max(1 − (τ − mean of τ), 0.02). Real: the moments of the tilted Gaussian."""
    rng, floats = np.random.default_rng(5), float64[::1]
    number = number_type(policy.dtype)
    call = compiled(_drift_kernel, void(policy_arrays(number), number[::1], floats, floats, floats))
    n = int(policy.sizes.outputs)
    for size in (0.1, 0.6, 3.0):
        out, by, x = rng.standard_normal(n), size * rng.standard_normal(n), np.zeros(n)
        call(policy.arrays(), policy.zero_vector(), np.append(rng.standard_normal(2), out), by, x)
        expected, at = np.empty(n), 0
        for values in policy.choices:
            part = slice(at, at + values)
            p = np.exp(out[part]) / np.exp(out[part]).sum()
            b = p * np.maximum(1.0 - (by[part] - p @ by[part]), LEAST_RATIO)
            expected[part], at = b / b.sum() - p, at + values
        if not policy.choices:
            mean = np.clip(-by[::2], -1.0, 1.0)
            variance = np.clip(1.0 - np.sqrt(2.0) * by[1::2] - mean**2, 0.25, 2.0)
            expected[::2], expected[1::2] = mean, (variance + mean**2 - 1.0) / np.sqrt(2.0)
        np.testing.assert_allclose(x, expected, atol=1e-9)
        assert np.abs(expected).max() > 0.01
