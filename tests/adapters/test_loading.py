"""Policies by the name of a file."""

from __future__ import annotations

import gymnasium as gym
import pytest
import torch
from stable_baselines3 import PPO

import evenroll
from evenroll.adapters.loading import load_any_policy
from evenroll.errors import PolicyError, SpecError


def test_a_zip_by_its_name(tmp_path, ppo: PPO) -> None:
    ppo.save(tmp_path / "model.zip")
    env = gym.make("CartPole-v1")
    assert (
        evenroll.evaluate(env, str(tmp_path / "model.zip"), episodes=5).value
        == evenroll.evaluate(env, ppo, episodes=5).value
    )


def test_a_class_is_made_or_the_function_that_makes_it_is_asked_for(tmp_path, monkeypatch) -> None:
    """Before, the class itself was called with an observation: a TypeError of the user's own constructor."""
    (tmp_path / "classes_of_mine.py").write_text(
        "class Ready:\n    def __call__(self, x):\n        return [0.5, 0.5]\n\n\n"
        "class Sized(Ready):\n    def __init__(self, width, depth=2):\n        pass\n"
    )
    monkeypatch.chdir(tmp_path)
    assert type(load_any_policy("classes_of_mine:Ready")).__name__ == "Ready"
    with pytest.raises(SpecError, match=r"needs width: name a function without parameters .* return Sized"):
        load_any_policy("classes_of_mine:Sized")


def test_files_of_others_are_told_from_ours(tmp_path, ppo: PPO) -> None:
    """Before: "header too large"."""
    ppo.save(tmp_path / "model.zip")
    torch.save(ppo.policy.state_dict(), tmp_path / "d.pt")
    with pytest.raises(PolicyError, match=r"d.pt: a file of torch .* --policy my_module:make_policy"):
        load_any_policy(str(tmp_path / "d.pt"))
    with pytest.raises(PolicyError, match=r'evenroll.save_policy\(evenroll.load_sb3\("model.zip"\), "model.safetensors"\)'):
        evenroll.load_policy(tmp_path / "model.zip")
    evenroll.save_policy(evenroll.load_sb3(tmp_path / "model.zip"), tmp_path / "model.safetensors")
    evenroll.load_policy(tmp_path / "model.safetensors")
