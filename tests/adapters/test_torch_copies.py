"""Our policies as torch modules, and modules from tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from evenroll.adapters.torch_copies import to_torch
from evenroll.errors import PolicyError
from evenroll.policies import External, TabularSoftmax
from tests.helpers import MLP_CASES, make_mlp


@pytest.mark.parametrize("case", MLP_CASES)
def test_a_network_says_the_same_in_torch(case: str) -> None:
    rng = np.random.default_rng(0)
    policy = make_mlp(rng, **MLP_CASES[case])
    module = to_torch(policy)
    for _ in range(5):
        obs = rng.normal(size=policy.obs_dim)
        action = rng.normal(size=policy.action_dim) if policy.n_actions is None else [float(rng.integers(policy.n_actions))]
        said = module(torch.as_tensor(obs)).log_prob(torch.as_tensor(action if policy.n_actions is None else action[0]))
        assert said.sum().item() == pytest.approx(policy.log_prob(obs, action), rel=1e-10)


def test_a_table_says_the_same_in_torch() -> None:
    policy = TabularSoftmax(np.random.default_rng(0).normal(size=(3, 4)))
    module = to_torch(policy)
    for state in range(3):
        np.testing.assert_allclose(module(torch.tensor(state)).probs.detach().numpy(), policy.table[state], rtol=1e-12)
    with pytest.raises(PolicyError, match="no torch version"):
        to_torch(External(2, choices=(2,)))
