"""Per-decision importance sampling is the ordinary one where only the last reward counts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenroll.errors import NoEstimate
from evenroll.estimators.per_decision import weighted_sum
from evenroll.estimators.table import ESTIMATORS
from tests.small_mdps import small_mdp


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_per_decision_equals_ordinary_when_only_the_last_reward_counts(seed: int) -> None:
    mdp = small_mdp(seed)
    data = mdp.population()
    last = np.isin(np.arange(data.steps), data.ends - 1)
    rewards = np.where(last, data.rewards, 0.0)
    returns = (mdp.gamma ** (data.lengths - 1)) * rewards[data.ends - 1]
    data = dataclasses.replace(data, rewards=rewards, returns=returns)
    assert ESTIMATORS["pdis"](data, mdp.policy) == pytest.approx(ESTIMATORS["ois"](data, mdp.policy), abs=1e-12)


def test_weights_of_rewards_that_are_0_do_not_count() -> None:
    """Σ exp(log w) x, however large the weight of an x = 0 is; and every other weight counts, that of an x = 1 included."""
    assert weighted_sum(np.array([2000.0, 0.0, 1.0]), np.array([0.0, 1.0, 3.0])) == pytest.approx(1.0 + 3.0 * np.e)
    assert weighted_sum(np.array([900.0]), np.array([0.0])) == 0.0
    with pytest.raises(NoEstimate, match="beyond floating point"):
        weighted_sum(np.array([2000.0, 0.0]), np.array([1.0, 3.0]))
