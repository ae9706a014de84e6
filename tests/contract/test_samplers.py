"""What every sampler must obey, on every built-in domain that it can run."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.engine.random import stream, uniform
from evenroll.errors import SpecError
from evenroll.evaluation.collector import Collector
from evenroll.samplers.table import SAMPLERS, get_sampler
from tests.helpers import IDS, double_policy, fitting_sampler, trial


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("spec", SAMPLERS)
def test_recording_does_not_change_what_happens(name: str, spec: str) -> None:
    """Nor does stopping and going on, nor collecting by episodes instead of steps."""
    domain = get_domain(name)
    sampler = fitting_sampler(spec, domain)
    plain = trial(domain, sampler, steps=2000, value=2.0, record_steps=False)
    full = trial(domain, sampler, steps=2000, value=2.0)
    np.testing.assert_array_equal(plain.returns, full.returns)
    np.testing.assert_array_equal(plain.ends, full.ends)
    by_episode = trial(domain, sampler, episodes=plain.episodes, value=2.0, record_steps=False)
    np.testing.assert_array_equal(by_episode.returns, plain.returns)
    policy = domain.policy()
    driver = Driver(policy, sampler, (0,), gamma=domain.gamma, horizon=domain.horizon, value=2.0)
    first = driver.run(domain.environment(None), steps=777)
    second = driver.run(domain.environment(None), steps=2000)
    np.testing.assert_array_equal(np.concatenate([first.returns, second.returns]), plain.returns)


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("spec", SAMPLERS)
def test_columns_agree_with_each_other(name: str, spec: str) -> None:
    domain = get_domain(name)
    policy = domain.policy()
    data = trial(domain, fitting_sampler(spec, domain), steps=1500, value=2.0)
    assert data.steps == 1500 == len(data.rewards)
    start = 0
    for i, end in enumerate(data.ends):
        rewards = data.rewards[start:end]
        assert data.returns[i] == pytest.approx(np.sum(domain.gamma ** np.arange(len(rewards)) * rewards), rel=1e-12)
        log_ratio = np.sum(data.log_e[start:end] - data.log_b[start:end])
        assert data.log_weights[i] == pytest.approx(log_ratio, abs=1e-10)
        assert (end - start == domain.horizon) or data.terminated[i]
        start = end
    for t in range(0, 1500, 97):
        assert policy.log_prob(data.observations[t], data.actions[t]) == pytest.approx(data.log_e[t], abs=1e-6)


@pytest.mark.parametrize("spec", SAMPLERS)
@pytest.mark.parametrize("name", IDS)
def test_a_collector_chooses_the_actions_of_the_whole_trial(name: str, spec: str) -> None:
    """A Gymnasium loop around `act` and `observe` gives the engine's data bit for bit, for every sampler that runs there."""
    domain = get_domain(name)
    policy = double_policy(name)
    sampler = get_sampler(spec, domain.paper)
    env = gymnasium.make(IDS[name])
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    if sampler.whole_trials_only:
        with pytest.raises(SpecError, match=r"built-in domains only|needs a tabular policy"):
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
