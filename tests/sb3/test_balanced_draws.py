"""What the balance knows of a rollout, while it is collected and when it is scored again."""

from __future__ import annotations

import functools

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

from evenroll.adapters.model import as_model
from evenroll.errors import SpecError
from evenroll.policies.external import External
from evenroll.samplers.auto_state import Memory
from evenroll.sb3 import BalancedPPO
from tests.helpers import Walk

torch.set_num_threads(1)
SPACES = [
    gym.spaces.Discrete(3),
    gym.spaces.MultiDiscrete([2, 3]),
    gym.spaces.MultiBinary(2),
    gym.spaces.Box(-1.0, 1.0, (2,)),
]


def made(space: gym.Space, n: int = 2, length: int = 5, **options: object) -> BalancedPPO:
    env = DummyVecEnv([functools.partial(Walk, space, length + 20 * i) for i in range(n)])
    small = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "learning_rate": 0.0, "seed": 0, "device": "cpu"}
    return BalancedPPO("MlpPolicy", env, **(small | options))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_features_and_outputs_are_those_that_evaluate_sees(space: gym.Space) -> None:
    """The adapter that `evaluate` uses reads the same numbers out of the model."""
    model = made(space)
    theirs = as_model(model, model.observation_space, space, compile=False)
    assert isinstance(theirs.engine, External)
    seen = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    np.testing.assert_allclose(model._draws.encode(torch.as_tensor(seen)), theirs.encode(seen), rtol=1e-5, atol=1e-6)
    assert model._draws.engine.choices == theirs.engine.choices
    theirs.close()


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_steps_that_are_scored_again_leave_the_balance_that_they_had_made(space: gym.Space) -> None:
    """While the policy stays the same; also in the midst of episodes, which go on, and of those that were cut."""
    model = made(space, n_steps=48, carry_over=1).learn(96)
    lanes, age = model._draws.lanes, model._draws._age.copy()
    before = {name: array.copy() for name, array in lanes.state().items()}
    model._draws.restart_from(*model._earlier.steps(model), model._episode_starts())
    after = lanes.state()
    for name, tolerance in (("trajectories", 0.0), ("vectors", 1e-3)):
        np.testing.assert_allclose(after[name], before[name], rtol=tolerance, atol=tolerance, err_msg=name)
    for name in ("k", "times", "next_fit"):
        assert getattr(Memory(after["memory"]), name) == getattr(Memory(before["memory"]), name)
    assert lanes.balance.clock.episodes == before["clock"][1]
    np.testing.assert_array_equal(after["rng"], before["rng"])
    np.testing.assert_array_equal(model._draws._age, age)


def test_an_episode_that_has_ended_is_not_gone_on_with() -> None:
    model = made(gym.spaces.Discrete(2), length=10, n_steps=30, batch_size=60, carry_over=1).learn(60)
    assert model._episode_starts().tolist() == [True, True]  # 30 is a multiple of 10, and itself
    model._draws.restart_from(*model._earlier.steps(model), model._episode_starts())
    assert model._draws.lanes.balance.clock.episodes == 3 + 2  # the longer one was cut
    assert not model._draws._age.any()


def test_wide_features_are_projected() -> None:
    model = made(gym.spaces.Discrete(2), policy_kwargs={"net_arch": [300]}).learn(64)
    assert model._draws.engine.features_dim == 256


def test_other_environments_in_the_midst_of_a_rollout_are_refused() -> None:
    model = made(gym.spaces.Discrete(2))
    starts = np.zeros(2, dtype=bool)
    with model._draws.at_work(lambda: starts), pytest.raises(SpecError, match="other than the 2 environments"):
        model.policy(torch.zeros(3, 3))
    model.policy(torch.zeros(3, 3))
