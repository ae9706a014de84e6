"""Behaviour policy gradient: one step against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.policies import TabularSoftmax
from evenroll.samplers import BPG
from tests.helpers import trial


def test_bpg_takes_the_documented_gradient_step() -> None:
    """After one batch, θ_b = θ_e + (step/batch) Σ (g w)² Σ ∇log π, with g relative to the value."""
    domain = get_domain("gridworld")
    policy = domain.policy()
    step_size, value = 0.3, 2.0
    data = trial(domain, BPG(4, step_size), steps=200, value=value)
    gradient, start = np.zeros(policy.parameters), 0
    for i in range(4):
        rows = slice(start, data.ends[i])
        total = policy.score_sum(data.observations[rows], data.actions[rows])
        gradient += (data.returns[i] / value * np.exp(data.log_weights[i])) ** 2 * total
        start = data.ends[i]
    assert np.allclose(data.log_weights[:4], 0.0)
    updated = TabularSoftmax((policy.theta + step_size / 4 * gradient).reshape(16, 4))
    for t in range(start, data.ends[4]):
        assert updated.log_prob(data.observations[t], data.actions[t]) == pytest.approx(data.log_b[t], abs=1e-9)
