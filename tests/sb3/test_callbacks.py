"""Evaluation during training leaves no trace."""

from __future__ import annotations

import gymnasium as gym
import torch
from stable_baselines3 import PPO

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
