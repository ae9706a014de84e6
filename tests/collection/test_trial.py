"""Whole trials: where trajectories are cut, how they are counted, what is random."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import EnvironmentFault
from evenroll.samplers import OnPolicy
from tests.helpers import trial


def test_trajectories_are_cut_discounted_and_counted_when_finished() -> None:
    """Horizon 3, too short for any goal, and γ = ½: g = r₀ + r₁/2 + r₂/4; what the last 2 steps begin is left out."""
    domain = dataclasses.replace(get_domain("gridworld"), gamma=0.5, horizon=3)
    data = trial(domain, OnPolicy(), steps=200)
    np.testing.assert_array_equal(data.ends, np.arange(3, 199, 3))
    np.testing.assert_allclose(data.returns, data.rewards[:198].reshape(66, 3) @ [1.0, 0.5, 0.25], rtol=1e-15)
    assert not data.terminated.any()
    assert data.unfinished == 1


@pytest.mark.statistical
def test_trials_do_not_share_randomness(base_seed: int) -> None:
    """Of 500 actions of two runs 0.63 ± 0.02 differ (100 pairs). P(false) ≤ 1e-6: 0.2 is 17 standard deviations off.
    Catches trials with the same numbers: no action would differ."""
    domain = get_domain("gridworld")
    a, b = (trial(domain, OnPolicy(), (base_seed, t), steps=500) for t in (0, 1))
    assert (a.actions != b.actions).mean() > 0.2


def test_a_reward_that_is_not_finite_is_named() -> None:
    domain = get_domain("gridworld")
    env = domain.environment(None)
    env.params[65 + 4 * 1 + 1] = np.inf  # from (0,1) down
    driver = Driver(domain.policy(), OnPolicy(), (0,), gamma=1.0, horizon=100)
    with pytest.raises(EnvironmentFault, match=r"reward inf in trajectory \d+, step \d+"):
        driver.run(env, steps=10_000)


def test_an_episode_without_end_is_cut_into_calls() -> None:
    """Ctrl-C is heard between compiled calls. Were the calls counted in episodes, the first would never return."""
    domain = get_domain("gridworld")
    driver = Driver(domain.policy(), OnPolicy(), (0,), gamma=1.0, horizon=10**12)
    calls = []

    def advance(environment, room, step_room):
        calls.append(step_room)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return usual(environment, room, step_room)

    usual = driver._advance
    driver._advance = advance  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        driver.run(domain.environment(None), episodes=10**9)
    assert calls[0] <= 1 << 14
    assert calls[2] <= 4 * calls[0]
