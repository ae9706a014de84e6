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
from evenroll.collection.rollout_files import load_rollouts, save_minari
from evenroll.errors import SpecError
from evenroll.evaluation.collector import Collector

ACTIONS = {
    "discrete": gym.spaces.Discrete(3),
    "discrete from −2": gym.spaces.Discrete(4, start=-2),
    "multi-discrete": gym.spaces.MultiDiscrete([2, 3]),
    "multi-discrete from 5": gym.spaces.MultiDiscrete([2, 3], start=[5, -1]),
    "box": gym.spaces.Box(-2.0, 3.0, (2, 2), np.float32),
}
STATES = gym.spaces.Discrete(4, start=3)


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


class Ring(gym.Env):
    """States 3 … 6 in a ring; action a goes a steps on. Ends after seven steps."""

    observation_space, action_space = STATES, gym.spaces.Discrete(2, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.state = 0, 3 + int(self.np_random.integers(4))
        return self.state, {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.t, self.state = self.t + 1, 3 + (self.state - 3 + int(action)) % 4
        return self.state, float(self.state), self.t == 7, False, {}


TABLE = np.log([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])


class Lookup(nn.Module):
    """Knows its states by the environment's numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.tensor(np.concatenate([np.full((3, 2), np.nan), TABLE])))

    def forward(self, states):
        return self.rows[states]


@pytest.mark.parametrize("kind", ["module", "function"])
def test_a_policy_on_numbered_states_is_asked_by_the_environments_numbers(kind: str) -> None:
    policy = Lookup() if kind == "module" else lambda state: np.exp(TABLE[state - 3])
    model = as_model(policy, STATES, Ring.action_space)
    np.testing.assert_allclose(model.engine.table, np.exp(TABLE), atol=1e-6)
    collector = Collector(model)
    env = Ring()
    for _ in collect(collector, env, episodes=30):
        pass
    data = collector.rollouts()
    s, a = data.observations[:, 0].astype(int), data.actions[:, 0].astype(int)
    assert set(s) == {0, 1, 2, 3}
    np.testing.assert_allclose(data.log_e, TABLE[s, a], atol=1e-6)
    within = np.setdiff1d(np.arange(len(s)), data.ends - 1)
    np.testing.assert_array_equal(s[within + 1], (s[within] + a[within] + 1) % 4)  # action 0 is the environment's 1
    np.testing.assert_array_equal(data.rewards, 3.0 + (s + a + 1) % 4)


def test_minari_has_the_environments_numbers(tmp_path) -> None:
    import minari

    collector = Collector(lambda state: np.exp(TABLE[state - 3]), observation_space=STATES, action_space=Ring.action_space)
    for _ in collect(collector, Ring(), episodes=4):
        pass
    data = collector.rollouts()
    save_minari(data, tmp_path / "a.minari", STATES, Ring.action_space, collector.last_observations())
    start = 0
    for episode in minari.MinariDataset(tmp_path / "a.minari" / "data").iterate_episodes():
        rows = slice(start, start + 7)
        np.testing.assert_array_equal(episode.observations[:-1], data.observations[rows, 0] + 3)
        np.testing.assert_array_equal(episode.observations[1:], episode.rewards)  # which is the number of the state entered
        np.testing.assert_array_equal(episode.actions, data.actions[rows, 0] + 1)
        start += 7
    again = load_rollouts(tmp_path / "a.minari")
    np.testing.assert_array_equal(again.observations, data.observations)
    np.testing.assert_array_equal(again.actions, data.actions)
