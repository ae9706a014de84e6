"""Data as a policy sees it: actions before and after a squash, data of others, and data that does not fit."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch.distributions import AffineTransform, Normal, TanhTransform, TransformedDistribution

from evenroll.adapters.model import as_model
from evenroll.collection.environments import collect
from evenroll.collection.rollout_files import load_rollouts, save_minari, save_rollouts
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.seeing import see
from evenroll.errors import DataError, SpecError
from evenroll.evaluation.collector import Collector
from tests.helpers import Ring, StructuredWalk, Walk, through_gymnasium

SPACE = gym.spaces.Box(np.float32([-1.0, 0.0]), np.float32([3.0, 0.5]))


def squashing(x: np.ndarray) -> Any:
    mean = torch.tensor([0.3 * float(x[0]), -0.2])
    after = AffineTransform(torch.tensor([1.0, 0.25]), torch.tensor([2.0, 0.25]))
    return TransformedDistribution(Normal(mean, 0.5 * torch.ones(2)), [TanhTransform(), after])


@pytest.fixture
def squashed() -> tuple[Collector, Rollouts, Walk]:
    env = Walk(SPACE)
    collector = Collector(squashing, observation_space=env.observation_space, action_space=SPACE)
    for _ in collect(collector, env, episodes=10):
        pass
    return collector, collector.rollouts(), env


def test_our_files_keep_actions_before_the_squash(squashed, tmp_path) -> None:
    collector, data, _ = squashed
    save_rollouts(data, tmp_path / "a.safetensors")
    again = see(collector.model, load_rollouts(tmp_path / "a.safetensors"))
    np.testing.assert_array_equal(again.actions, data.actions)
    np.testing.assert_allclose(again.log_e, data.log_e, atol=1e-5)


def test_minari_has_what_the_environment_got_and_is_seen_before_the_squash(squashed, tmp_path) -> None:
    collector, data, env = squashed
    save_minari(data, tmp_path / "a.minari", env.observation_space, SPACE, actions=collector.model.actions)
    read = load_rollouts(tmp_path / "a.minari")
    np.testing.assert_allclose(read.actions, np.array(env.seen), atol=1e-6)
    np.testing.assert_allclose(see(collector.model, read).actions, data.actions, atol=1e-3)


def test_data_of_others_has_the_environments_actions(squashed) -> None:
    collector, data, env = squashed
    theirs = dataclasses.replace(data, actions=np.array(env.seen, dtype=np.float64), log_e=None, log_b=None)
    seen = see(collector.model, theirs)
    np.testing.assert_allclose(seen.actions, data.actions, atol=1e-3)
    np.testing.assert_allclose(seen.log_e, data.log_e, atol=1e-2)
    with pytest.raises(DataError, match="outside the bounds"):
        see(collector.model, dataclasses.replace(data, log_e=None, log_b=None, actions=data.actions + 9.0))
    with pytest.raises(DataError, match="fits neither"):
        see(collector.model, dataclasses.replace(data, log_e=data.log_e + 1.0))


def test_what_does_not_fit_is_refused(squashed) -> None:
    collector, data, _ = squashed
    with pytest.raises(DataError, match="3-d actions"):
        see(collector.model, dataclasses.replace(data, actions=np.zeros((len(data.actions), 3))))


def test_several_parts_are_not_written_as_minari(tmp_path) -> None:
    env = StructuredWalk(gym.spaces.Discrete(2))
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    collector = Collector(lambda x: [0.5, 0.5], **spaces)
    for _ in collect(collector, env, episodes=2):
        pass
    with pytest.raises(SpecError, match=r"NAME.parquet or NAME.safetensors"):
        save_minari(collector.rollouts(), tmp_path / "a.minari", *spaces.values())
    save_rollouts(collector.rollouts(), tmp_path / "a.safetensors")
    again = see(collector.model, load_rollouts(tmp_path / "a.safetensors"))
    np.testing.assert_allclose(again.log_e, np.log(0.5))


def test_log_probabilities_are_those_of_the_policy_that_looks() -> None:
    collector, data, _ = through_gymnasium("gridworld", episodes=20)
    blind = dataclasses.replace(data, log_e=None)
    np.testing.assert_allclose(see(collector.model, blind).log_e, data.log_e, rtol=1e-14)


def test_a_deterministic_policy_takes_its_own_data_and_no_other() -> None:
    """Numbered states that do not start at 0, and actions that start at 1."""

    def certain(state: int) -> int:
        return 1 if state in (3, 5) else 2

    env = Ring()
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    collector = Collector(certain, deterministic=False, **spaces)
    for _ in collect(collector, env, episodes=6):
        pass
    data = collector.rollouts()
    again = Collector(certain, initial=data, **spaces)
    for _ in collect(again, env, episodes=2):
        pass
    assert again.rollouts().episodes == 8
    np.testing.assert_array_equal(again.rollouts().log_e, np.zeros(56))
    other = as_model(lambda state: 1, env.observation_space, env.action_space)
    with pytest.raises(DataError, match="would have taken another action in row"):
        see(other, data)
