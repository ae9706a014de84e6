"""The engine, stepped or whole, chooses the same actions as Algorithm 1 written out in PyTorch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from evenroll.collect import Driver
from evenroll.domains import get_domain
from evenroll.errors import SpecError
from evenroll.numerics import stream, uniform
from evenroll.policies import MLP
from evenroll.samplers import ROS

torch = pytest.importorskip("torch")
STEPS = 5000
IDS = {
    "bandit": "evenroll/Bandit-v0",
    "gridworld": "evenroll/GridWorld-v0",
    "cartpole": "evenroll/CartPole-v0",
    "cartpole-continuous": "evenroll/CartPoleContinuous-v0",
}


def load_example():
    path = Path(__file__).parents[1] / "examples" / "ros_in_one_file.py"
    spec = importlib.util.spec_from_file_location("ros_in_one_file", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def double_policy(domain):
    policy = domain.policy()
    return policy.astype(np.float64) if isinstance(policy, MLP) else policy


@pytest.mark.parametrize("name", IDS)
def test_same_actions_as_pytorch(name: str) -> None:
    from evenroll.policies.torch_module import to_torch

    domain = get_domain(name)
    policy = double_policy(domain)
    alpha = domain.paper["ros"]["alpha"]
    driver = Driver(policy, ROS(alpha), (5,), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
    engine = driver.run(domain.environment(None), steps=STEPS)

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


@pytest.mark.parametrize("name", IDS)
def test_one_step_at_a_time_equals_the_whole_trial(name: str) -> None:
    """A Gymnasium loop around `act` and `observe` gives the engine's data bit for bit, for every sampler."""
    from evenroll.language import SAMPLERS, get_sampler

    domain = get_domain(name)
    policy = double_policy(domain)
    for spec in SAMPLERS:
        sampler = get_sampler(spec, domain)
        try:
            sampler.check(policy)
        except SpecError:
            continue
        options = {"gamma": domain.gamma, "horizon": domain.horizon, "record_steps": True, "value": 2.0}
        whole = Driver(policy, sampler, (6,), **options).run(domain.environment(None), steps=1500)
        stepped = Driver(policy, sampler, (6,), **options)
        env = gymnasium.make(IDS[name])
        env_stream = stream(6, 1)
        env.unwrapped.uniform = lambda s=env_stream: uniform(s)
        actions = []
        obs, _ = env.reset()
        for _ in range(1500):
            action = stepped.act(np.atleast_1d(np.asarray(obs, dtype=np.float64)))
            actions.append(action.copy())
            obs, reward, terminated, truncated, _ = env.step(int(action[0]) if policy.n_actions else action.copy())
            stepped.observe(reward, terminated or truncated)
            if terminated or truncated:
                obs, _ = env.reset()
        np.testing.assert_array_equal(np.array(actions), whole.actions, err_msg=spec)
