"""Evaluation during training leaves no trace, and sees what the policy sees in training."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize

from evenroll.errors import SpecError
from evenroll.sb3.callbacks import EvalCallback


def test_evaluation_during_training_leaves_no_trace() -> None:
    """The callback sees a policy that changes, and training goes on as if it had not looked."""
    trained = []
    for callback in (None, EvalCallback(gym.make("CartPole-v1"), every=256, episodes=10)):
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=128, n_epochs=1, seed=0, device="cpu").learn(512, callback=callback)
        trained.append([p.detach().clone() for p in model.policy.parameters()])
    assert [steps for steps, _ in callback.results] == [256, 512]
    assert callback.results[0][1].value != callback.results[1][1].value
    assert all(torch.equal(a, b) for a, b in zip(*trained, strict=True))
    assert not any(part._forward_pre_hooks or part._forward_hooks for part in model.policy.modules())


def test_statistics_are_taken_over_from_training() -> None:
    """The evaluation environment normalises as training does at that moment, and does not learn by itself."""
    seen = []

    class Watched(EvalCallback):
        def _on_step(self) -> bool:
            before = len(self.results)
            going = super()._on_step()
            if len(self.results) > before:
                seen.append((evaluation.obs_rms.mean.copy(), training.obs_rms.mean.copy(), evaluation.obs_rms.count))
            return going

    training = VecNormalize(make_vec_env("CartPole-v1", 2, seed=0), clip_obs=3.0)
    evaluation = VecNormalize(make_vec_env("CartPole-v1", 1), training=False, norm_reward=False)
    callback = Watched(VecFrameStack(evaluation, 1), every=256, episodes=5)
    PPO("MlpPolicy", training, n_steps=128, n_epochs=1, seed=0, device="cpu").learn(512, callback=callback)
    assert len(seen) == 2
    for theirs, ours, _ in seen:
        np.testing.assert_array_equal(theirs, ours)
    assert (seen[0][0] != seen[1][0]).all()
    assert 0 < seen[0][2] < seen[1][2]
    assert evaluation.clip_obs == 3.0
    assert [result.warnings for _, result in callback.results] == [(), ()]


def test_an_evaluation_environment_without_statistics_is_refused_before_training() -> None:
    training = VecNormalize(make_vec_env("CartPole-v1", 1))
    model = PPO("MlpPolicy", training, n_steps=64, device="cpu")
    for env in (gym.make("CartPole-v1"), DummyVecEnv([lambda: gym.make("CartPole-v1")])):
        with pytest.raises(SpecError, match="training=False, norm_reward=False"):
            model.learn(64, callback=EvalCallback(env))
    half = VecNormalize(make_vec_env("CartPole-v1", 1), norm_obs=False)
    with pytest.raises(SpecError, match="only one normalises"):
        model.learn(64, callback=EvalCallback(half))
    assert model.num_timesteps == 0
