"""Off-policy data has the behaviour that its definition says."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.samplers import OffPolicy
from tests.helpers import trial


@pytest.mark.parametrize("name", DOMAINS)
def test_off_policy_start_has_its_definition(name: str) -> None:
    domain = get_domain(name)
    policy = domain.policy()
    data = trial(domain, OffPolicy(0.1), steps=300)
    if policy.n_actions is not None:
        expected = np.log(0.9 * np.exp(data.log_e) + 0.1 / policy.n_actions)
    else:
        mean_raw, scale_raw = np.array([policy.outputs(o) for o in data.observations]).T
        scale = 1.1 * np.logaddexp(0, scale_raw)
        z = (data.actions[:, 0] - np.tanh(mean_raw)) / scale
        expected = -0.5 * z**2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(data.log_b, expected, atol=2e-5)
