"""Spaces as rows of numbers, and back: also those that do not start at 0."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

from evenroll.adapters.model import as_model
from evenroll.adapters.spaces import Actions, Observations
from evenroll.collection.environments import collect
from evenroll.errors import SpecError
from evenroll.evaluation.collector import Collector
from tests.helpers import RING_LOGITS, STATES, Ring, StructuredWalk

ACTIONS = {
    "discrete": gym.spaces.Discrete(3),
    "discrete from −2": gym.spaces.Discrete(4, start=-2),
    "multi-discrete": gym.spaces.MultiDiscrete([2, 3]),
    "multi-discrete from 5": gym.spaces.MultiDiscrete([2, 3], start=[5, -1]),
    "multi-binary": gym.spaces.MultiBinary((2, 2)),
    "box of whole numbers": gym.spaces.Box(-1, 3, (2,), np.int32),
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


def test_a_squash_is_played_and_undone() -> None:
    space = gym.spaces.Box(np.float32([-1.0, 0.0]), np.float32([3.0, 0.5]))
    actions = Actions.of(space).squashed((space.low + space.high) / 2, (space.high - space.low) / 2)
    rows = np.random.default_rng(0).normal(size=(20, 2)) * 1.5
    played = actions.to_envs(rows)
    np.testing.assert_allclose(played, [1.0, 0.25] + np.tanh(rows) * [2.0, 0.25], atol=1e-6)
    np.testing.assert_array_equal(played, np.stack([actions.to_env(row) for row in rows]))
    np.testing.assert_allclose(actions.from_env(played), rows, atol=1e-3)
    assert space.contains(actions.to_env(np.array([40.0, -40.0])))
    assert actions.clipped(rows) == 0.0 < Actions.of(space).clipped(rows)


def test_whole_numbers_without_end_are_refused() -> None:
    with pytest.raises(SpecError, match="TransformAction"):
        Actions.of(gym.spaces.Box(0, 10**6, (2,), np.int64))


def test_observations_of_several_parts_are_stored_flat_and_handed_over_as_they_are() -> None:
    """Nested Dicts and Tuples, one and many; numbers keep their numbering."""
    space = StructuredWalk(gym.spaces.Discrete(2)).observation_space
    observations = Observations.of(space)
    assert (observations.size, observations.structured) == (7, True)
    space.seed(0)
    samples = [space.sample() for _ in range(5)]
    rows = np.concatenate([observations.rows(observations.batch(x)) for x in samples])
    batch = observations.shaped(rows)
    np.testing.assert_array_equal(observations.rows(batch), rows)
    for x, again in zip(samples, observations.each(batch), strict=True):
        np.testing.assert_array_equal(x["place"], again["place"])
        assert x["parts"][0] == again["parts"][0]
        assert again["parts"][1].dtype == np.int8
        assert again["place"].dtype == np.float32
    picked = observations.take(batch, [3, 1])
    np.testing.assert_array_equal(observations.rows(picked), rows[[3, 1]])
    assert all(
        space.contains({"place": p["place"], "parts": (np.int64(p["parts"][0]), p["parts"][1])})
        for p in observations.each(observations.probes())
    )
    with pytest.raises(SpecError, match="TransformObservation"):
        Observations.of(gym.spaces.Dict({"text": gym.spaces.Text(5)}))


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_parts_side_by_side_are_those_of_one_alone(mode: str) -> None:
    """In every vector environment, what is recorded lies in the space, and the last observation of an episode is kept."""
    envs = gym.vector.SyncVectorEnv(
        [lambda: StructuredWalk(gym.spaces.Discrete(2))] * 3, autoreset_mode=gym.vector.AutoresetMode(mode)
    )
    space, seen = envs.single_observation_space, []

    def policy(x):
        assert space.contains({"place": x["place"], "parts": (np.int64(x["parts"][0]), np.asarray(x["parts"][1]))})
        seen.append(x["parts"][0])
        return [0.5, 0.5]

    collector = Collector(
        policy, lanes=3, observation_space=space, action_space=envs.single_action_space, keep_observations=True
    )
    for _ in collect(collector, envs, episodes=6):
        pass
    data = collector.rollouts()
    assert (data.episodes, data.observations.shape) == (6, (36, 7))
    assert {x.shape for x in collector.last_observations().values()} == {(7,)}


def test_parts_in_environments_of_stable_baselines3() -> None:
    flat = gym.wrappers.TransformObservation(
        StructuredWalk(gym.spaces.Discrete(2)), lambda x: {"place": x["place"], "flags": x["parts"][1]},
        gym.spaces.Dict({"place": gym.spaces.Box(-5.0, 5.0, (2, 2)), "flags": gym.spaces.MultiBinary(2)}),
    )  # fmt: skip
    envs = DummyVecEnv([lambda: flat])
    model = PPO("MultiInputPolicy", envs, n_steps=8, batch_size=8, device="cpu", seed=0)
    collector = Collector(
        model, lanes=1, observation_space=envs.observation_space, action_space=envs.action_space, keep_observations=True
    )
    for _ in collect(collector, envs, episodes=10):
        pass
    data = collector.rollouts()
    batch = {key: torch.as_tensor(x) for key, x in collector.model.observations.shaped(data.observations).items()}
    with torch.no_grad():
        theirs = model.policy.get_distribution(batch).log_prob(torch.as_tensor(data.actions[:, 0])).numpy()
    np.testing.assert_allclose(data.log_e, theirs, atol=1e-5)
    assert collector.result().episodes == 10


def test_states_count_from_0_inside() -> None:
    observations = Observations.of(STATES)
    np.testing.assert_array_equal(observations.rows([3, 6, 4]), [[0.0], [3.0], [1.0]])
    assert all(STATES.contains(int(s)) for s in observations.probes())
    for wrong in (2, 7):
        with pytest.raises(SpecError, match="state number was observed outside"):
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
