"""Policies by the name of a file."""

from __future__ import annotations

import gymnasium as gym
from stable_baselines3 import PPO

import evenroll


def test_a_zip_by_its_name(tmp_path, ppo: PPO) -> None:
    ppo.save(tmp_path / "model.zip")
    env = gym.make("CartPole-v1")
    assert (
        evenroll.evaluate(env, str(tmp_path / "model.zip"), episodes=5).value
        == evenroll.evaluate(env, ppo, episodes=5).value
    )
