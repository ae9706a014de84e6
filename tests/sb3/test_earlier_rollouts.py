"""Rollouts one after the other are one longer rollout, seen by the present policy."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.envs import SimpleMultiObsEnv
from stable_baselines3.common.vec_env import DummyVecEnv

from evenroll.sb3 import BalancedPPO
from evenroll.sb3.earlier_rollouts import COLLECTED
from tests.helpers import Walk

torch.set_num_threads(1)


class Longer(Walk):
    """Every third episode is cut off, which Stable-Baselines3 makes up for with the value of what was seen last."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.number = getattr(self, "number", 0) + 1
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        seen, reward, over, cut, info = super().step(action)
        return (seen, reward, False, over, info) if self.number % 3 == 0 else (seen, reward, over, cut, info)


def made(n_steps: int, learning_rate: float, carry_over: int, space: gym.Space, sampler: str = "os") -> BalancedPPO:
    env = DummyVecEnv([functools.partial(Longer, space, 7), functools.partial(Longer, space, 5)])
    return BalancedPPO(
        "MlpPolicy", env, n_steps=n_steps, batch_size=32, n_epochs=1, learning_rate=learning_rate, carry_over=carry_over,
        sampler=sampler, seed=0, device="cpu",
    )  # fmt: skip


@pytest.mark.parametrize("space", [gym.spaces.Discrete(2), gym.spaces.Box(-1.0, 1.0, (2,))], ids=["discrete", "box"])
def test_two_rollouts_are_one_of_twice_the_length(space: gym.Space) -> None:
    """With a policy that does not change: data, values and advantages, across episodes and their cuts."""
    joined = learnt_from(made(32, 0.0, 1, space))[-1]
    (whole,) = learnt_from(made(64, 0.0, 0, space))
    assert joined["rewards"].shape == (64, 2)
    for name, theirs in whole.items():
        np.testing.assert_allclose(joined[name], theirs, rtol=1e-4, atol=1e-5, err_msg=name)


def learnt_from(model: BalancedPPO) -> list[dict[str, np.ndarray]]:
    """The buffers that PPO is given in 128 steps, before it shuffles them."""
    found: list[dict[str, np.ndarray]] = []

    class Watched(type(model)):
        def _update_learning_rate(self, optimizers: Any) -> None:
            """The first thing that PPO does when it trains."""
            buffer = self.rollout_buffer
            found.append({name: getattr(buffer, name).copy() for name in (*COLLECTED, "advantages", "returns")})
            super()._update_learning_rate(optimizers)

    model.__class__ = Watched
    model.learn(128)
    return found


@pytest.mark.parametrize("carry_over", [1, 2])
def test_earlier_steps_are_scored_under_the_present_policy(carry_over: int) -> None:
    model = made(32, 1e-2, carry_over, gym.spaces.Discrete(3), "auto").learn(64 * 3)
    model.collect_rollouts(model.env, model._init_callback(None), model.rollout_buffer, 32)
    whole = model._earlier.with_new(model)
    assert whole.buffer_size == 32 * (carry_over + 1)
    seen, actions = torch.as_tensor(whole.observations.reshape(-1, 3)), torch.as_tensor(whole.actions.ravel()).long()
    values, log_probs, _ = model.policy.evaluate_actions(seen, actions)
    np.testing.assert_allclose(whole.values.ravel(), values.detach().numpy().ravel(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(whole.log_probs.ravel(), log_probs.detach().numpy(), rtol=1e-4, atol=1e-5)
    then = np.concatenate([part["log_probs"] for part in model._earlier.kept])
    assert np.abs(then - whole.log_probs[:-32]).max() > 1e-3  # the policy has changed since


def test_a_reset_forgets() -> None:
    model = made(32, 1e-3, 2, gym.spaces.Discrete(2), "auto").learn(64 * 3)
    assert len(model._earlier.kept) == 2
    model.learn(64)
    assert len(model._earlier.kept) == 1


def test_observations_of_several_parts() -> None:
    env = DummyVecEnv([functools.partial(SimpleMultiObsEnv, random_start=True)])
    model = BalancedPPO("MultiInputPolicy", env, n_steps=16, batch_size=16, n_epochs=1, carry_over=1, seed=0, device="cpu")
    assert model.learn(48).num_timesteps == 48
