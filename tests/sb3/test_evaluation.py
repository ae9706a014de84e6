"""`evaluate_policy`: the scenarios of Stable-Baselines3's own tests."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy as theirs
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

import evenroll


def test_deterministic_evaluation_is_theirs(ppo: PPO) -> None:
    def env():
        made = Monitor(gym.make("CartPole-v1"))
        made.reset(seed=3)
        return made

    def run(function, **options):
        vec = DummyVecEnv([env, env])
        vec.seed(5)
        return function(ppo, vec, n_eval_episodes=5, **options)

    assert run(evenroll.evaluate_policy) == pytest.approx(run(theirs))
    assert run(evenroll.evaluate_policy, return_episode_rewards=True) == run(theirs, return_episode_rewards=True)


def test_callback_is_called_after_each_step_of_each_environment(ppo: PPO) -> None:
    calls = []

    def callback(locals_, globals_):
        calls.append((locals_["i"], float(locals_["reward"]), bool(locals_["done"]), set(locals_["info"])))

    vec = make_vec_env("CartPole-v1", n_envs=2)
    rewards, lengths = evenroll.evaluate_policy(
        ppo, vec, 4, deterministic=False, callback=callback, return_episode_rewards=True
    )
    assert len(rewards) == len(lengths) == 4
    assert len(calls) == sum(lengths)
    assert sum(done for _, _, done, _ in calls) == 4
    assert {i for i, *_ in calls} == {0, 1}
    np.testing.assert_allclose(rewards, lengths, atol=1e-5)


def test_threshold_and_warning(ppo: PPO) -> None:
    with pytest.warns(UserWarning, match="no Monitor"):
        mean, std = evenroll.evaluate_policy(ppo, gym.make("CartPole-v1"), 3, deterministic=False)
    assert mean > 5
    assert std >= 0
    with pytest.raises(AssertionError, match="below threshold"):
        evenroll.evaluate_policy(ppo, Monitor(gym.make("CartPole-v1")), 3, reward_threshold=1e6)


class Lives(gym.Wrapper):
    """Says "done" every ten steps although the episode goes on underneath, as Atari wrappers do for lost lives."""

    def reset(self, **kwargs):
        self.lost = 0
        return (self.observation, {}) if getattr(self, "going", False) else super().reset(**kwargs)

    def step(self, action):
        self.observation, reward, terminated, truncated, info = super().step(action)
        self.lost += 1
        self.going = not (terminated or truncated)
        return self.observation, reward, terminated or self.lost == 10, truncated, info


def test_an_episode_ends_where_monitor_says(ppo: PPO) -> None:
    for deterministic in (True, False):
        vec = DummyVecEnv([lambda: Lives(Monitor(gym.make("CartPole-v1")))])
        _, lengths = evenroll.evaluate_policy(ppo, vec, 5, deterministic, return_episode_rewards=True)
        assert max(lengths) > 10


def test_each_environment_has_its_share(ppo: PPO) -> None:
    """Short episodes are not favoured: of 2 envs, one three times as short, each gives half."""
    vec = DummyVecEnv([lambda: gym.wrappers.TimeLimit(gym.make("Pendulum-v1"), 20), lambda: gym.make("Pendulum-v1")])
    model = A2C("MlpPolicy", "Pendulum-v1", device="cpu", seed=0)
    _, lengths = evenroll.evaluate_policy(model, vec, 6, deterministic=False, return_episode_rewards=True, warn=False)
    assert sorted(lengths) == [20, 20, 20, 200, 200, 200]
