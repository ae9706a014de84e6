"""Policies by the name of a file, and environments in all the ways in which they are given."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

import evenroll
from evenroll.adapters.loading import load_any_policy, load_environment, make_environment
from evenroll.errors import PolicyError, SpecError
from evenroll.policies import MLP


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


class Short(gym.Wrapper):
    """CartPole that says how it was made."""

    def __init__(self, length: int = 20, kind: str = "a", strict: bool = False) -> None:
        super().__init__(gym.wrappers.TimeLimit(gym.make("CartPole-v1"), length))
        self.made = (length, kind, strict)


def short_env(length=20, kind="a", strict=False):
    return Short(length, kind, strict)


POLICY = MLP([], np.zeros((2, 4)), np.zeros(2))
GIVEN: dict[str, Any] = {
    "id": "CartPole-v1", "spec": gym.spec("CartPole-v1"), "class": Short, "function": lambda: gym.make("CartPole-v1"),
    "partial": functools.partial(gym.make, "CartPole-v1"), "vector function": lambda: gym.make_vec("CartPole-v1", 2),
}  # fmt: skip


@pytest.mark.parametrize("kind", GIVEN)
def test_an_environment_may_be_given_in_many_ways(kind: str) -> None:
    result = evenroll.evaluate(GIVEN[kind], POLICY, episodes=6)
    assert (result.episodes, result.domain) == (6, "CartPole-v1")
    assert evenroll.difference(GIVEN[kind], POLICY, POLICY, episodes=4, sampler="os").value == 0.0


def test_what_was_made_here_is_closed_here(monkeypatch) -> None:
    closed = []
    monkeypatch.setattr(Short, "close", lambda self: closed.append(self))
    evenroll.evaluate(Short, POLICY, episodes=2)
    own = Short()
    evenroll.evaluate(own, POLICY, episodes=2)
    assert len(closed) == 1
    assert own not in closed


def test_keyword_arguments_after_a_colon() -> None:
    plain, sure = make_environment("FrozenLake-v1"), make_environment("FrozenLake-v1:is_slippery=false,map_name=8x8")
    assert (plain.observation_space.n, sure.observation_space.n) == (16, 64)
    assert {len(x) for x in plain.unwrapped.P[0].values()} == {3}
    assert {len(x) for x in sure.unwrapped.P[0].values()} == {1}
    made = load_environment("tests.adapters.test_loading:short_env:length=7,kind=b,strict=yes")
    assert made.made == (7, "b", True)
    assert make_environment("CartPole-v1:max_episode_steps=9,render_mode=None").spec.max_episode_steps == 9
    lanes = load_environment("FrozenLake-v1:is_slippery=no", 2)
    assert lanes.num_envs == 2


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("FrozenLake-v1:is_slippery", "no environment|ModuleNotFound|namespace|module"),
        ("FrozenLake-v1:slip=1", "slip"),
        ("FrozenLake-v1:is_slippery=", "expected key=value"),
        (lambda: 5, "a int is no environment"),
        (lambda: 1 / 0, "failed: ZeroDivisionError"),
        (5, "a int is no environment: give a Gymnasium env"),
        (MLP, "failed: TypeError"),
    ],
)
def test_what_makes_no_environment_is_refused(given: Any, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        evenroll.evaluate(given, POLICY, episodes=2)
