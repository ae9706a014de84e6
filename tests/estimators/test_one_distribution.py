"""Every fit reads a policy's distribution as the compiled policy has it."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.collection.rollouts import Rollouts
from evenroll.engine.thin_matrices import apply
from evenroll.estimators import behavior_fit
from evenroll.estimators.fqe import ActionBasis, outputs_of
from evenroll.policies import MLP
from evenroll.policies.distributions import Categorical

HEADS = {
    "softmax": {},
    "softplus": {"head": "gaussian"},
    "log_std": {"head": "gaussian", "scale": "log_std", "log_std": np.array([-0.5, 0.3, 0.0, 1.0]), "mean": "identity"},
}


def network(kind: str) -> MLP:
    rng = np.random.default_rng(1)
    layer = (rng.normal(size=(6, 3)), rng.normal(size=6))
    return MLP([layer], rng.normal(size=(4, 6)) / 2, rng.normal(size=4) / 2, dtype=np.float64, **HEADS[kind])


def data_of(policy: MLP, n: int) -> Rollouts:
    rng = np.random.default_rng(2)
    actions = rng.normal(size=(n, policy.action_dim))
    if policy.n_actions is not None:
        actions = rng.integers(policy.n_actions, size=(n, 1)).astype(float)
    return Rollouts(
        1.0, n, np.zeros(1), np.array([n]), np.ones(1, bool), observations=rng.normal(size=(n, 3)), actions=actions,
        rewards=np.zeros(n),
    )  # fmt: skip


@pytest.mark.parametrize("kind", HEADS)
def test_a_fit_starts_at_the_policy(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a step of Newton's method log π̂ is log π_e."""
    policy = network(kind)
    data = data_of(policy, 50)
    monkeypatch.setattr(behavior_fit, "ITERATIONS", 0)
    expected = [policy.log_prob(o, a) for o, a in zip(data.observations, data.actions, strict=True)]
    np.testing.assert_allclose(behavior_fit.fitted_log_probs(policy, data), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", HEADS)
def test_the_basis_of_q_has_the_stated_means(kind: str) -> None:
    """Over all actions, or by quadrature over the real ones."""
    policy = network(kind)
    psi = policy.features(np.random.default_rng(3).normal(size=(1, 3)))
    basis, distribution = ActionBasis(policy), policy.distribution
    outputs = outputs_of(policy, psi)
    np.testing.assert_allclose(outputs, policy.outputs_of_features(psi), atol=1e-12)
    np.testing.assert_allclose(outputs, policy.outputs_of_rows(apply(psi, policy.head_matrix)), atol=1e-12)
    if isinstance(distribution, Categorical):
        actions, weights = np.arange(4.0)[:, None], distribution.probabilities(outputs)[0]
    else:
        z, weights = np.polynomial.hermite_e.hermegauss(8)
        weights = weights / weights.sum()
        actions = distribution.means(outputs) + z[:, None] * distribution.scales(outputs)
    values = basis.values(np.repeat(psi, len(actions), axis=0), actions)
    np.testing.assert_allclose(weights @ values, basis.means(psi)[0], atol=1e-12)
