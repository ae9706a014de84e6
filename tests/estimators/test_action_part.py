"""The luck of the actions: what is fitted to an episode does not come from it."""

from __future__ import annotations

import numpy as np

from evenroll.domains.catalogue import get_domain
from evenroll.estimators.score_regression import action_parts
from tests.helpers import trial


def test_an_episode_does_not_shape_its_own_correction():
    """Multiply one episode's rewards: the action part of its own fold stays, to the last bit; others change."""
    from dataclasses import replace

    for domain in ("bandit", "cartpole", "cartpole-continuous"):
        policy, data = get_domain(domain).policy(), trial(domain, episodes=60)
        rewards = data.rewards.copy()
        rewards[data.ends[6] : data.ends[7]] *= 3.0  # episode 7, fold 7
        before = action_parts(data, policy)[0].apart
        after = action_parts(replace(data, rewards=rewards), policy)[0].apart
        own = np.arange(60) % 10 == 7
        np.testing.assert_array_equal(before[own], after[own])
        assert (before[~own] != after[~own]).any()
