"""Per-decision importance sampling is the ordinary one where only the last reward counts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
