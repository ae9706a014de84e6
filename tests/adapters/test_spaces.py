"""Spaces as rows of numbers, and back: also those that do not start at 0."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from evenroll.adapters.model import as_model
from evenroll.adapters.spaces import Actions, Observations
from evenroll.collection.environments import collect
from evenroll.errors import SpecError
from evenroll.evaluation.collector import Collector
from tests.helpers import RING_LOGITS, STATES, Ring

ACTIONS = {
    "discrete": gym.spaces.Discrete(3),
    "discrete from −2": gym.spaces.Discrete(4, start=-2),
    "multi-discrete": gym.spaces.MultiDiscrete([2, 3]),
    "multi-discrete from 5": gym.spaces.MultiDiscrete([2, 3], start=[5, -1]),
    "box": gym.spaces.Box(-2.0, 3.0, (2, 2), np.float32),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_come_back_as_they_went(name: str) -> None:
    """Row → environment → row; alone and side by side alike; what the environment gets lies in its space."""
    space = ACTIONS[name]
    actions = Actions.of(space)
    rng = np.random.default_rng(0)
    whole = [rng.integers(n, size=20) for n in actions.choices]
    rows = np.stack(whole, axis=1).astype(np.float64) if whole else rng.uniform(-2, 3, (20, 4))
    alone = [actions.to_env(row) for row in rows]
    assert all(space.contains(action) for action in alone)
    np.testing.assert_array_equal(np.stack(alone), actions.to_envs(rows))
    np.testing.assert_allclose(actions.from_env(np.stack(alone)), rows, atol=1e-6)
    if name.startswith("discrete"):
        assert {int(action) for action in alone} == set(range(int(space.start), int(space.start) + int(space.n)))


def test_real_actions_are_clipped_for_the_environment_alone() -> None:
    actions = Actions.of(ACTIONS["box"])
    np.testing.assert_array_equal(actions.to_env(np.array([-9.0, 0.0, 1.0, 9.0])), [[-2.0, 0.0], [1.0, 3.0]])


def test_states_count_from_0_inside() -> None:
    observations = Observations.of(STATES)
    np.testing.assert_array_equal(observations.rows([3, 6, 4]), [[0.0], [3.0], [1.0]])
    assert all(STATES.contains(int(s)) for s in observations.probes())
    for wrong in (2, 7):
        with pytest.raises(SpecError, match="state number outside"):
            observations.rows([wrong])


class Lookup(nn.Module):
    """Knows its states by the environment's numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.tensor(np.concatenate([np.full((3, 2), np.nan), RING_LOGITS])))

    def forward(self, states):
        return self.rows[states]


@pytest.mark.parametrize("kind", ["module", "function"])
def test_a_policy_on_numbered_states_is_asked_by_the_environments_numbers(kind: str) -> None:
    policy = Lookup() if kind == "module" else lambda state: np.exp(RING_LOGITS[state - 3])
    model = as_model(policy, STATES, Ring.action_space)
    np.testing.assert_allclose(model.engine.table, np.exp(RING_LOGITS), atol=1e-6)
    collector = Collector(model)
    env = Ring()
    for _ in collect(collector, env, episodes=30):
        pass
    data = collector.rollouts()
    s, a = data.observations[:, 0].astype(int), data.actions[:, 0].astype(int)
    assert set(s) == {0, 1, 2, 3}
    np.testing.assert_allclose(data.log_e, RING_LOGITS[s, a], atol=1e-6)
    within = np.setdiff1d(np.arange(len(s)), data.ends - 1)
    np.testing.assert_array_equal(s[within + 1], (s[within] + a[within] + 1) % 4)  # action 0 is the environment's 1
    np.testing.assert_array_equal(data.rewards, 3.0 + (s + a + 1) % 4)
