"""The engine, stepped or whole, chooses the same actions as Algorithm 1 written out in PyTorch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.engine.random import stream, uniform
from evenroll.errors import SpecError
from evenroll.evaluation.collector import Collector
from evenroll.policies import MLP
from evenroll.samplers import ROS
from evenroll.samplers.table import SAMPLERS, get_sampler

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
    from evenroll.adapters.torch_copies import to_torch

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


@pytest.mark.parametrize("spec", SAMPLERS)
@pytest.mark.parametrize("name", IDS)
def test_a_collector_chooses_the_actions_of_the_whole_trial(name: str, spec: str) -> None:
    """A Gymnasium loop around `act` and `observe` gives the engine's data bit for bit, for every sampler that runs there."""
    domain = get_domain(name)
    policy = double_policy(domain)
    sampler = get_sampler(spec, domain.paper)
    env = gymnasium.make(IDS[name])
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    if sampler.whole_trials_only:
        with pytest.raises(SpecError, match="built-in domains only|needs a tabular policy"):
            Collector(policy, sampler, gamma=domain.gamma, seed=6, **spaces)
        return
    collector = Collector(policy, sampler, gamma=domain.gamma, seed=6, **spaces)
    whole = Driver(policy, sampler, (6,), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
    data = whole.run(domain.environment(None), steps=1500)
    env_stream = stream(6, 1)
    env.unwrapped.uniform = lambda: uniform(env_stream)
    obs, _ = env.reset()
    for _ in range(1500):
        obs, reward, terminated, truncated, _ = env.step(collector.act(obs))
        if collector.observe(reward, terminated, truncated):
            obs, _ = env.reset()
    np.testing.assert_array_equal(collector.rollouts().actions, data.actions)
    np.testing.assert_array_equal(collector.rollouts().log_b, data.log_b)
