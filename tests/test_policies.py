"""Policies: log-probabilities and scores against torch autograd and finite differences; θ_b without building it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from evenroll.policies import MLP, Policy, TabularSoftmax

torch = pytest.importorskip("torch")


def make_mlp(rng, widths=(4, 64, 64), head="softmax", outputs=2, norm=True, dtype=np.float64, **options) -> MLP:
    layers = [(rng.normal(size=(o, i)) / np.sqrt(i), 0.3 * rng.normal(size=o)) for i, o in itertools.pairwise(widths)]
    n = widths[0]
    statistics = (rng.normal(size=n), rng.uniform(0.5, 2, n), rng.uniform(0.5, 1.5, n), rng.normal(size=n)) if norm else None
    log_std = 0.3 * rng.normal(size=outputs) if options.get("scale") == "log_std" else None
    return MLP(
        layers,
        rng.normal(size=(outputs, widths[-1])) / np.sqrt(widths[-1]),
        0.1 * rng.normal(size=outputs),
        head=head,
        norm=statistics,
        log_std=log_std,
        dtype=dtype,
        **options,
    )


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


CASES = {
    "softmax-norm": {},
    "softmax-plain": {"norm": False},
    "softmax-5-actions": {"outputs": 5},
    "tanh": {"activation": "tanh"},
    "odd-widths": {"widths": (3, 13, 7), "outputs": 3},
    "one-layer": {"widths": (4, 32)},
    "linear": {"widths": (4,)},
    "three-layers": {"widths": (2, 24, 17, 40)},
    "gaussian": {"head": "gaussian"},
    "gaussian-3d": {"head": "gaussian", "outputs": 6, "mean": "identity"},
    "gaussian-log-std": {"head": "gaussian", "outputs": 2, "scale": "log_std", "mean": "identity", "activation": "tanh"},
}


@pytest.mark.parametrize("case", CASES)
def test_score_equals_autograd(case: str) -> None:
    rng = np.random.default_rng(1)
    policy = make_mlp(rng, **CASES[case])
    for _ in range(5):
        obs = rng.normal(size=policy.obs_dim)
        action = rng.normal(size=policy.action_dim) if policy.n_actions is None else [float(rng.integers(policy.n_actions))]
        theta = torch.tensor(policy.theta, requires_grad=True)
        expected = torch_log_prob(policy, theta, obs, action)
        expected.backward()
        assert policy.log_prob(obs, action) == pytest.approx(expected.item(), rel=1e-10)
        np.testing.assert_allclose(policy.score(obs, action), theta.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_single_precision_agrees_to_its_rounding(case: str) -> None:
    rng = np.random.default_rng(2)
    double = make_mlp(rng, **CASES[case])
    single = double.astype(np.float32)
    obs = rng.normal(size=double.obs_dim)
    action = np.zeros(double.action_dim)
    np.testing.assert_allclose(single.outputs(obs), double.outputs(obs), atol=2e-5)
    np.testing.assert_allclose(single.score(obs, action), double.score(obs, action), atol=2e-4)


@pytest.mark.parametrize("case", CASES)
def test_behavior_outputs_equal_those_of_the_policy_built_at_theta_b(case: str) -> None:
    rng = np.random.default_rng(3)
    policy = make_mlp(rng, **CASES[case])
    obs, vector = rng.normal(size=policy.obs_dim), rng.normal(size=policy.parameters)
    built = policy.with_theta(policy.theta - 0.07 * vector)
    np.testing.assert_allclose(policy.outputs(obs, vector, 0.07), built.outputs(obs), rtol=1e-10, atol=1e-12)


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


def test_tabular_probabilities_and_huge_steps() -> None:
    table = TabularSoftmax([[0.0, 1.0, -1.0], [5.0, 5.0, 5.0]])
    np.testing.assert_allclose(table.probabilities([1]), 1 / 3)
    shift = np.array([0.0, 1.0, 2.0, 0, 0, 0])
    pushed = table.probabilities([0], shift, 1e8)
    np.testing.assert_array_equal(pushed, [1.0, 0.0, 0.0])
