"""Policies act(observation, noise): the noise is drawn, balanced, saved and resumed; the environment gets the action."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy.special import ndtr

import evenroll
from evenroll.adapters.model import as_model
from evenroll.collection.environments import collect
from evenroll.collection.seeing import see
from evenroll.errors import DataError, PolicyError, SpecError
from evenroll.evaluation.collector import Collector
from tests.helpers import BOX, DISCRETE, Walk


def act(x: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Two modes: the sign of the first number decides between them."""
    return np.tanh(np.sign(noise[0]) + 0.3 * noise[1:3] + 0.1 * x[:2])


def collected(policy: Any, env: gym.Env, episodes: int = 20, **options: Any) -> Collector:
    collector = Collector(policy, observation_space=env.observation_space, action_space=env.action_space, **options)
    for _ in collect(collector, env, episodes=episodes):
        pass
    return collector


def test_the_environment_gets_what_the_noise_becomes() -> None:
    """What is recorded is the noise, standard Gaussian, with its log-density; what is played is act of it."""
    env = Walk(BOX)
    collector = collected(evenroll.LatentNoise(act, 3), env)
    data = collector.rollouts()
    collector.close()
    played = np.array([act(x, z) for x, z in zip(data.observations, data.actions, strict=True)])
    np.testing.assert_allclose(np.array(env.seen), played.clip(-0.5, 0.5), atol=1e-6)
    np.testing.assert_allclose(data.log_e, (-0.5 * data.actions**2 - 0.5 * np.log(2 * np.pi)).sum(axis=1), atol=1e-9)
    assert np.abs(data.log_b - data.log_e).max() > 1e-3  # balanced
    np.testing.assert_allclose(see(collector.model, data).log_e, data.log_e)
    assert collector.model.described == "act with gaussian noise of 3 numbers, 3 features"


def test_uniform_noise_discrete_actions_and_batches() -> None:
    """Uniform noise is Φ of what is recorded. A batch is asked at once, and torch's tensors are taken."""

    def choose(x: np.ndarray, noise: np.ndarray) -> torch.Tensor:
        assert noise.shape == (len(x), 1)
        assert ((noise > 0) & (noise < 1)).all()
        return torch.as_tensor(np.floor(3 * noise[:, 0]).astype(int) - 1)

    policy = evenroll.LatentNoise(choose, 1, kind="uniform", batched=True, features=lambda x: x[:, :1])
    env = gym.vector.SyncVectorEnv([lambda: Walk(DISCRETE)] * 2)
    collector = Collector(
        policy, lanes=2, observation_space=env.single_observation_space, action_space=env.single_action_space
    )
    for _ in collect(collector, env, episodes=10):
        pass
    data = collector.rollouts()
    total = sum(float(np.sum(walk.seen)) for walk in env.envs)
    assert total == pytest.approx(float((np.floor(3 * ndtr(data.actions[:, 0])) - 1).sum()))
    assert collector.model.described.endswith("1 features")


def test_a_decision_may_be_several_actions() -> None:
    """Each is played in turn; rewards are discounted within the decision, and decisions among each other."""

    def four(x: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return noise.reshape(4, 2) / 9

    env, gamma = Walk(BOX), 0.9  # episodes of 6 steps: a whole decision, then half of one
    collector = collected(evenroll.LatentNoise(four, 8, chunk=4), env, episodes=5, gamma=gamma)
    data = collector.rollouts()
    assert (data.lengths == 2).all()
    assert data.gamma == pytest.approx(gamma**4)
    rewards = np.array([float(np.mean(a)) for a in env.seen]).reshape(5, 6)
    np.testing.assert_allclose(data.returns, rewards @ gamma ** np.arange(6), atol=1e-6)
    assert "a step is a decision" in collector.result().remark
    with pytest.raises(SpecError, match="chunks of actions are for a single environment"):
        evenroll.evaluate(gym.vector.SyncVectorEnv([lambda: Walk(BOX)] * 2), evenroll.LatentNoise(four, 8, chunk=4))


def test_it_goes_on_from_a_file_within_an_episode(tmp_path: Path) -> None:
    seen = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)

    def run(collector: Collector, steps: range) -> list[Any]:
        played = []
        for t in steps:
            played.append(collector.act(seen[t]))
            collector.observe(1.0, t % 7 == 6)
        return played

    spaces = {"observation_space": Walk(BOX).observation_space, "action_space": BOX}
    whole, first, second = (Collector(evenroll.LatentNoise(act, 3), **spaces) for _ in range(3))
    expected = run(whole, range(20))
    run(first, range(10))
    first.save(tmp_path / "half.safetensors")
    second.resume(tmp_path / "half.safetensors").go_on()
    np.testing.assert_array_equal(run(second, range(10, 20)), expected[10:])


def test_what_is_refused_and_the_middle() -> None:
    spaces = Walk(BOX).observation_space, BOX
    restless = evenroll.LatentNoise(lambda x, noise: noise[:2] + np.random.default_rng().normal(size=2), 3)
    with pytest.raises(PolicyError, match="asked again with the same observation and the same noise"):
        as_model(restless, *spaces)
    with pytest.raises(PolicyError, match=r"gives an array of shape \[8, 3\]"):
        as_model(evenroll.LatentNoise(lambda x, noise: noise, 3), *spaces)
    with pytest.raises(PolicyError, match="failed: ZeroDivisionError"):
        as_model(evenroll.LatentNoise(lambda x, noise: 1 / 0, 3), *spaces)
    with pytest.raises(SpecError, match="one of gaussian, uniform"):
        evenroll.LatentNoise(act, 3, kind="cauchy")
    model = as_model(evenroll.LatentNoise(act, 3), *spaces, deterministic=True)
    x = model.observations.probes(4)
    np.testing.assert_allclose(model.decide(x), [act(o, np.zeros(3)).clip(-0.5, 0.5) for o in x], atol=1e-6)
    data = collected(lambda x: np.zeros(2), Walk(BOX)).rollouts()
    with pytest.raises(DataError, match="2-d actions"):
        see(as_model(evenroll.LatentNoise(act, 3), *spaces), data)
