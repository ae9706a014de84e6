"""Networks: log-probabilities and scores against torch autograd; θ_b without building it."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.policies import MLP
from tests.helpers import MLP_CASES, make_mlp

torch = pytest.importorskip("torch")


def torch_log_prob(policy: MLP, theta, obs, action):
    """The same network in torch, from the flat parameters."""
    at = 0

    def take(*shape):
        nonlocal at
        size = int(np.prod(shape))
        at += size
        return theta[at - size : at].reshape(shape)

    x = torch.as_tensor(obs, dtype=torch.float64)
    if policy.norm is not None:
        mean, var = (torch.as_tensor(t) for t in policy.norm[:2])
        x = (x - mean) / torch.sqrt(var + 1e-5) * take(policy.obs_dim) + take(policy.obs_dim)
    for w, _ in policy.layers:
        x = x @ take(w.shape[1], w.shape[0]) + take(w.shape[0])
        x = torch.relu(x) if policy.activation == "relu" else torch.tanh(x)
    out = take(*policy.head_weight.shape) @ x + take(len(policy.head_bias))
    if policy.head == "softmax":
        return torch.distributions.Categorical(logits=out).log_prob(torch.tensor(int(action[0])))
    if policy.scale == "log_std":
        mean, scale = out, take(len(out)).exp()
    else:
        mean, scale = out[0::2], torch.nn.functional.softplus(out[1::2])
    mean = torch.tanh(mean) if policy.mean == "tanh" else mean
    return torch.distributions.Normal(mean, scale).log_prob(torch.as_tensor(action, dtype=torch.float64)).sum()


@pytest.mark.parametrize("case", MLP_CASES)
def test_score_equals_autograd(case: str) -> None:
    rng = np.random.default_rng(1)
    policy = make_mlp(rng, **MLP_CASES[case])
    for _ in range(5):
        obs = rng.normal(size=policy.obs_dim)
        action = rng.normal(size=policy.action_dim) if policy.n_actions is None else [float(rng.integers(policy.n_actions))]
        theta = torch.tensor(policy.theta, requires_grad=True)
        expected = torch_log_prob(policy, theta, obs, action)
        expected.backward()
        assert policy.log_prob(obs, action) == pytest.approx(expected.item(), rel=1e-10)
        np.testing.assert_allclose(policy.score(obs, action), theta.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", MLP_CASES)
def test_single_precision_agrees_to_its_rounding(case: str) -> None:
    rng = np.random.default_rng(2)
    double = make_mlp(rng, **MLP_CASES[case])
    single = double.astype(np.float32)
    obs = rng.normal(size=double.obs_dim)
    action = np.zeros(double.action_dim)
    np.testing.assert_allclose(single.outputs(obs), double.outputs(obs), atol=2e-5)
    np.testing.assert_allclose(single.score(obs, action), double.score(obs, action), atol=2e-4)


@pytest.mark.parametrize("case", MLP_CASES)
def test_behavior_outputs_equal_those_of_the_policy_built_at_theta_b(case: str) -> None:
    rng = np.random.default_rng(3)
    policy = make_mlp(rng, **MLP_CASES[case])
    obs, vector = rng.normal(size=policy.obs_dim), rng.normal(size=policy.parameters)
    built = policy.with_theta(policy.theta - 0.07 * vector)
    np.testing.assert_allclose(policy.outputs(obs, vector, 0.07), built.outputs(obs), rtol=1e-10, atol=1e-12)


def test_a_huge_step_leaves_a_gaussian_within_reach_and_a_softmax_as_it_is() -> None:
    """`tame`: a Gaussian's outputs stay within 1,000 (1 + |output|) of the policy's; what overflows is the policy's own."""
    rng = np.random.default_rng(4)
    gaussian, softmax = (make_mlp(rng, **MLP_CASES[case]) for case in ("gaussian", "softmax-plain"))
    for policy in (gaussian, softmax):
        obs, vector = rng.normal(size=policy.obs_dim), rng.normal(size=policy.parameters)
        own, far = policy.outputs(obs), policy.outputs(obs, vector, 1e9)
        reach = 1000.0 * (1.0 + np.abs(own))
        beyond = np.abs(far - own) > reach * (1.0 + 1e-12)
        assert beyond.any() == (policy is softmax)
        np.testing.assert_array_equal(policy.outputs(obs, np.full(policy.parameters, 1e300), 1e300), own)
