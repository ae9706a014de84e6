"""Data that somebody else collected, as a policy sees it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evenroll.adapters.model import as_model
from evenroll.collection.environments import collect
from evenroll.collection.seeing import see
from evenroll.errors import DataError
from evenroll.evaluation.collector import Collector
from tests.helpers import Ring, through_gymnasium


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
