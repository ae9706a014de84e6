"""ROS: equalities that must hold exactly, and Algorithm 1 written out in PyTorch."""

from __future__ import annotations

import importlib.util

import gymnasium
import numpy as np
import pytest

from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.engine.random import stream, uniform
from evenroll.samplers import ROS, OnPolicy
from evenroll.study import initial_data
from tests.helpers import IDS, ROOT, double_policy, trial


@pytest.mark.parametrize("name", DOMAINS)
def test_alpha_zero_is_on_policy_bit_for_bit(name: str) -> None:
    domain = get_domain(name)
    on_policy = trial(domain, OnPolicy(), steps=3000)
    ros = trial(domain, ROS(0.0), steps=3000)
    np.testing.assert_array_equal(on_policy.actions, ros.actions)
    np.testing.assert_array_equal(on_policy.returns, ros.returns)
    np.testing.assert_array_equal(ros.log_e, ros.log_b)


def test_behaviour_log_probabilities_are_those_of_theta_b() -> None:
    """ROS on gridworld, recomputed step by step from the definition θ_b = θ_e − (α/k) S."""
    domain = get_domain("gridworld")
    policy = domain.policy()
    alpha = 500.0
    data = trial(domain, ROS(alpha), steps=400)
    S = np.zeros(policy.parameters)
    for k in range(400):
        s, a = data.observations[k], data.actions[k]
        p = policy.probabilities(s, S, alpha / k if k else 0.0)
        assert np.log(p[int(a[0])]) == pytest.approx(data.log_b[k], abs=1e-9)
        S += policy.score(s, a)


@pytest.mark.parametrize("name", DOMAINS)
def test_initial_data_starts_the_sum_where_the_data_left_it(name: str) -> None:
    """The first action after D₁ follows θ_e − (α/k) S with S and k of D₁."""
    domain = get_domain(name)
    policy = domain.policy()
    alpha = domain.paper["ros"]["alpha"]
    first = initial_data(domain, policy, (3,), episodes=20)
    data = trial(domain, ROS(alpha), (3,), initial=first, steps=5)
    S = policy.score_sum(first.observations, first.actions)
    out = policy.outputs(data.observations[first.steps], S, alpha / first.steps)
    if policy.n_actions is not None:
        expected = out[int(data.actions[first.steps, 0])] - np.log(np.exp(out - out.max()).sum()) - out.max()
        assert data.log_b[first.steps] == pytest.approx(expected, abs=1e-4)
    assert data.initial_episodes == 20
    assert data.initial_steps == first.steps
    np.testing.assert_array_equal(data.returns[:20], first.returns)


@pytest.mark.parametrize("name", DOMAINS)
def test_huge_alpha_never_yields_nan(name: str) -> None:
    domain = get_domain(name)
    data = trial(domain, ROS(1e12), steps=3000)
    assert np.isfinite(data.returns).all()
    assert np.isfinite(data.actions).all()
    assert not np.isnan(data.log_b).any()


STEPS = 5000


def load_example():
    path = ROOT / "examples" / "ros_in_one_file.py"
    spec = importlib.util.spec_from_file_location("ros_in_one_file", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", IDS)
def test_same_actions_as_pytorch(name: str) -> None:
    from evenroll.adapters.torch_copies import to_torch

    domain = get_domain(name)
    policy = double_policy(name)
    alpha = domain.paper["ros"]["alpha"]
    engine = trial(domain, ROS(alpha), (5,), policy=policy, steps=STEPS)

    env = gymnasium.make(IDS[name])
    env_stream, action_stream = stream(5, 1), stream(5, 0)
    env.unwrapped.uniform = lambda: uniform(env_stream)
    returns, chosen = load_example().robust_on_policy_sampling(
        env, to_torch(policy), alpha, STEPS, lambda: uniform(action_stream)
    )
    actions = np.array([np.asarray(a).reshape(-1) for _, a in chosen])
    if policy.n_actions is not None:
        np.testing.assert_array_equal(actions, engine.actions)
    else:
        np.testing.assert_allclose(actions, engine.actions, atol=1e-6)
    assert len(returns) == engine.episodes
