"""Gridworld: rewards against their table, noise, and the exact value of a short horizon."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.policies import TabularSoftmax


def test_gridworld_rewards_belong_to_the_cell_entered_and_walls_cost_one() -> None:
    env = gymnasium.make("evenroll/GridWorld-v0").unwrapped
    up, down, left, right = range(4)

    def enter(cell: int, action: int) -> tuple[int, float, bool]:
        env.reset(seed=0)
        env._state[0] = cell
        obs, reward, terminated, _, _ = env.step(action)
        return int(obs), reward, terminated

    assert enter(0, up) == (0, -1.0, False)
    assert enter(1, down) == (5, -10.0, False)  # (0,1) → (1,1)
    assert enter(5, up) == (1, -1.0, False)
    assert enter(3, down) == (7, 1.0, False)  # (0,3) → (1,3)
    assert enter(7, right) == (7, -1.0, False)  # a wall, whatever the cell
    assert enter(14, right) == (15, 10.0, True)
    assert enter(12, left) == (12, -1.0, False)


@pytest.mark.statistical
def test_gridworld_noise_is_uniform_and_mean_factor_scales_rewards(base_seed: int) -> None:
    """2,000 rewards: the relative standard error of a uniform number's standard deviation is √(0.8/2000)/2 = 1 %, that of
    its mean 3.9 % of 1. P(false) ≤ 2e-5 at 4.5 of either. Catches a scale off by 5 % and a mean off by 0.18."""
    env = gymnasium.make("evenroll/GridWorld-v0", noise=3.0, mean_factor=2.0).unwrapped
    env.reset(seed=base_seed)
    rewards = []
    for _ in range(2000):
        env._state[0] = 14
        rewards.append(env.step(3)[1])
    rewards = np.array(rewards) - 20.0
    assert np.abs(rewards).max() <= 3.0
    assert rewards.std() == pytest.approx(np.sqrt(3), rel=4.5 * np.sqrt(0.8 / 2000) / 2)
    assert rewards.mean() == pytest.approx(0.0, abs=4.5 * np.sqrt(3 / 2000))


def test_gridworld_value_of_the_uniform_policy_counts_the_horizon() -> None:
    """Enumeration of the last steps: with horizon 1 from the start, any move costs 1."""
    import dataclasses

    domain = dataclasses.replace(get_domain("gridworld"), horizon=1)
    truth = domain.known_truth(TabularSoftmax(np.zeros((16, 4))))
    assert (truth.value, truth.mean_length, truth.variance) == (-1.0, 1.0, 0.0)


def test_noise_adds_its_variance_at_every_step() -> None:
    """Uniform noise in ±f has the variance f²/3, independent from step to step, so that Var[G] grows by f²/3 · E[length]."""
    plain, noisy = (get_domain(name) for name in ("gridworld", "gridworld:noise=2"))
    policy = plain.policy()
    known, more = (domain.known_truth(policy) for domain in (plain, noisy))
    assert known is not None
    assert more is not None
    assert more.value == pytest.approx(known.value)
    assert more.variance - known.variance == pytest.approx(noisy.environment(None).params[0] ** 2 / 3.0 * known.mean_length)
    assert noisy.environment(None).params[0] != noisy.environment(None).params[1]
