"""CartPole: dynamics against Gymnasium's own physics."""

from __future__ import annotations

import gymnasium
import numpy as np

from evenroll.domains.catalogue import get_domain


def cartpole_states(rng: np.random.Generator, n: int = 2000) -> np.ndarray:
    return rng.uniform(-1, 1, (n, 4)) * np.array([2.5, 3.0, 0.22, 3.0])


def test_cartpole_physics_is_gymnasiums_step_by_step() -> None:
    rng = np.random.default_rng(0)
    reference = gymnasium.make("CartPole-v1").unwrapped
    ours = gymnasium.make("evenroll/CartPole-v0").unwrapped
    reference.reset(seed=0)
    ours.reset(seed=0)
    for state in cartpole_states(rng):
        action = int(rng.integers(2))
        reference.state = tuple(state)
        reference.steps_beyond_terminated = None
        ours._state[:] = state
        _, reward, terminated, _, _ = reference.step(action)
        obs, our_reward, our_terminated, _, _ = ours.step(action)
        np.testing.assert_allclose(obs, reference.state, rtol=1e-14, atol=1e-15)
        assert (our_reward, our_terminated) == (reward, terminated)


def test_three_actions_push_left_not_at_all_and_right() -> None:
    np.testing.assert_array_equal(get_domain("cartpole:actions=3").environment(None).params, [-10, 0, 10])


def test_continuous_cartpole_is_cartpole_with_force_30_a_not_clipped() -> None:
    rng = np.random.default_rng(1)
    reference = gymnasium.make("CartPole-v1").unwrapped
    ours = gymnasium.make("evenroll/CartPoleContinuous-v0").unwrapped
    reference.reset(seed=0)
    ours.reset(seed=0)
    for state in cartpole_states(rng, 1000):
        action = rng.normal() * 1.5
        reference.state = tuple(state)
        reference.steps_beyond_terminated = None
        reference.force_mag = 30.0 * action  # Gymnasium pushes by ±force_mag
        ours._state[:] = state
        _, _, terminated, _, _ = reference.step(1)
        obs, _, our_terminated, _, _ = ours.step(np.array([action]))
        np.testing.assert_allclose(obs, reference.state, rtol=1e-13, atol=1e-14)
        assert our_terminated == terminated
