"""What every sampler must obey, on every built-in domain that it can run."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from evenroll.collection.balance import action_stream
from evenroll.collection.lanes import SOUND, Lanes
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.engine.random import stream, uniform
from evenroll.errors import SpecError
from evenroll.evaluation.collector import Collector
from evenroll.samplers import Sampler
from evenroll.samplers.table import SAMPLERS, get_sampler
from evenroll.study import initial_data
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


def stepwise(spec: str, name: str) -> Sampler:
    """The sampler, or a skip where it runs in whole trials only."""
    sampler = fitting_sampler(spec, get_domain(name))
    if sampler.whole_trials_only:
        pytest.skip(sampler.whole_trials_only)
    return sampler


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("spec", SAMPLERS)
def test_initial_data_is_taken_up_alike(name: str, spec: str) -> None:
    """By a whole trial and by a collector, bit for bit; it stands in front of what is collected."""
    sampler, domain, policy = stepwise(spec, name), get_domain(name), double_policy(name)
    first = initial_data(domain, policy, (8,), episodes=15, delta=0.4)
    data = trial(domain, sampler, action_stream(6, first), policy=policy, initial=first, steps=300)
    env = gymnasium.make(IDS[name])
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    collector = Collector(policy, sampler, gamma=domain.gamma, seed=6, initial=first, **spaces)
    env_stream = stream(*action_stream(6, first), 1)
    env.unwrapped.uniform = lambda: uniform(env_stream)
    obs, _ = env.reset()
    for _ in range(300):
        obs, reward, terminated, truncated, _ = env.step(collector.act(obs))
        if collector.observe(reward, terminated, truncated):
            obs, _ = env.reset()
    again = collector.rollouts()
    np.testing.assert_array_equal(again.actions, data.actions)
    np.testing.assert_allclose(again.log_b, data.log_b, atol=1e-12)
    assert data.initial_episodes == again.initial_episodes == 15
    np.testing.assert_array_equal(data.actions[: first.steps], first.actions)


@pytest.mark.parametrize("name", ["gridworld", "cartpole"])
@pytest.mark.parametrize("spec", SAMPLERS)
def test_lanes_are_one_sampler_that_sees_them_in_turn(name: str, spec: str) -> None:
    """Three lanes whose episodes last 2, 3 and 5 steps, against one that is lent each lane's own memory for its step."""
    sampler, policy, lengths = stepwise(spec, name), double_policy(name), np.array([2, 3, 5])
    rng, nobody = np.random.default_rng(0), np.zeros(3, dtype=bool)
    shape = (60, 3) if name == "gridworld" else (60, 3, 4)
    x = rng.integers(16, size=shape) if name == "gridworld" else 0.05 * rng.standard_normal(shape)
    together = Collector(policy, sampler, gamma=0.8, lanes=3, seed=1)
    alone = Lanes(policy, sampler, (1,), gamma=0.8)
    assert together.stepper is not None
    own, times = [alone.trajectories[0].copy() for _ in range(3)], np.zeros(3)
    tail = alone.balance.vectors[len(alone.balance.vectors) - sampler.each(policy) :]
    tails = np.zeros((3, len(tail)))
    for observations in x:
        together.act(observations)
        for lane in range(3):
            alone.trajectories[0], tail[...] = own[lane], tails[lane]
            assert alone.advance(np.array(observations[lane], float).reshape(1, -1), np.ones(1, np.int64)) == SOUND
            own[lane], tails[lane] = alone.trajectories[0].copy(), tail
            np.testing.assert_array_equal(alone.actions[0], together.stepper.actions[lane])
            assert alone.log_b[0] == together.stepper.log_b[lane]
        times += 1
        over = times == lengths
        together.observe(np.ones(3), over, nobody)
        for lane in np.flatnonzero(over):
            alone.trajectories[0], tail[...] = own[lane], tails[lane]
            alone.end(0)
            own[lane], tails[lane], times[lane] = alone.trajectories[0].copy(), tail, 0
