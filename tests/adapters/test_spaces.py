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
from evenroll.adapters.spaces import MOST_WHOLE, Actions, Observations, check_fit
from evenroll.collection.environments import collect
from evenroll.errors import PolicyError, SpecError
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


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Discrete(5, start=-3),
        gym.spaces.MultiDiscrete([2, 30], start=[7, -40]),
        gym.spaces.MultiBinary((2, 3)),
        gym.spaces.Box(0, 255, (3, 2), np.uint8),
        gym.spaces.Box(np.float32([-2.0, 5.0]), np.float32([-1.0, 1e5])),
        gym.spaces.Box(np.float32([0.0, -np.inf]), np.float32([np.inf, 3.0])),
    ],
    ids=str,
)
def test_probes_lie_in_the_space_and_reach_its_ends(space: gym.Space) -> None:
    """Each kind as it is; bounded numbers fill their range, and others get ever larger."""
    probes = Observations.of(space).probes(600)
    assert len(probes) == 600
    assert probes.dtype == (np.int64 if isinstance(space, gym.spaces.Discrete) else space.dtype)
    assert all(space.contains(x if x.shape else int(x)) for x in probes)
    if isinstance(space, gym.spaces.Box):
        low, high = space.low.astype(float), space.high.astype(float)
        bounded = np.isfinite(high - low)
        share = (probes - np.where(bounded, low, 0.0)) / np.where(bounded, high - low, 1.0)
        assert np.where(bounded, share.min(axis=0), 0.0).max() < 0.05
        assert np.where(bounded, share.max(axis=0), 1.0).min() > 0.95
        assert np.abs(np.where(bounded, 0.0, probes[:200])).max() < 0.6
        assert bounded.all() or np.abs(np.where(bounded, 0.0, probes[400:])).max() > 10.0
    else:
        every = probes.reshape(600, -1)
        n = int(space.n) if isinstance(space, gym.spaces.Discrete) else 2
        assert all(len(np.unique(column)) >= n for column in every.T)


def test_what_is_beyond_the_bounds() -> None:
    """One number of a row is enough; rounding does not count where actions were played."""
    actions = Actions.of(gym.spaces.Box(np.float32([-2.0, 0.0]), np.float32([3.0, 1.0])))
    rows = np.array([[0.0, 0.5], [3.0, 1.0], [-2.0, 0.0], [3.1, 0.5], [0.0, -0.1], [-2.1, 1.1]])
    assert actions.clipped(rows) == 0.5
    assert not actions.outside(rows[:3] + 1e-7)
    assert not actions.outside(rows[:3] - 1e-7)
    assert actions.outside(rows[3:4])
    assert actions.outside(rows[4:5])
    assert Actions.of(gym.spaces.Discrete(3)).clipped(rows) == 0.0


def test_the_same_actions() -> None:
    whole, real = Actions.of(gym.spaces.MultiDiscrete([4, 4])), Actions.of(gym.spaces.Box(-9.0, 9.0, (2,)))
    a = np.array([[1.0, 2.0], [3.0, 0.0]])
    assert whole.same(a, a)
    assert not whole.same(a, a + np.array([[0.0, 0.0], [0.0, 1.0]]))
    assert real.same(a, a + 1e-6)
    assert not real.same(a, a + np.array([[0.0, 0.0], [0.0, 0.01]]))
    assert real.same(np.empty((0, 2)), np.empty((0, 2)))


def test_actions_of_several_parts() -> None:
    """A row has the parts one after the other, in the order of the space; mixed kinds count as real numbers."""
    where = gym.spaces.Box(-1.0, 1.0, (2,))
    mixed = Actions.of(gym.spaces.Dict({"kind": gym.spaces.Discrete(3, start=5), "where": where}))
    assert (mixed.choices, mixed.real, mixed.dim, mixed.mixed) == ((), 3, 3, True)
    alone = mixed.to_env(np.array([2.0, 0.5, -7.0]))
    assert alone["kind"] == 7
    np.testing.assert_array_equal(alone["where"], [0.5, -1.0])
    both = mixed.to_envs(np.array([[2.0, 0.5, -0.25], [0.0, 0.0, 1.0]]))
    np.testing.assert_array_equal(both["kind"], [7, 5])
    np.testing.assert_array_equal(mixed.from_env(both), [[2.0, 0.5, -0.25], [0.0, 0.0, 1.0]])
    again = mixed.batch([both, both])
    assert (again["kind"].shape, again["where"].shape) == ((4,), (4, 2))
    discrete = Actions.of(gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.MultiDiscrete([3, 4])]))
    assert (discrete.choices, discrete.real, discrete.dim, discrete.mixed) == ((2, 3, 4), 0, 3, False)
    one, several = discrete.to_env(np.array([1.0, 2.0, 3.0]))
    assert (one, several.tolist()) == (1, [2, 3])
    plain = Actions.of(gym.spaces.Tuple([where, gym.spaces.Box(0.0, 4.0, (1,))]))
    assert (plain.real, plain.mixed) == (3, False)
    assert plain.clipped(np.array([[0.0, 0.0, 3.0], [0.0, 0.0, 5.0]])) == 0.5


def test_whole_numbers_of_a_box_are_counted() -> None:
    assert Actions.of(gym.spaces.Box(-1, 3, (2,), np.int32)).choices == (5, 5)
    assert Actions.of(gym.spaces.Box(0, MOST_WHOLE - 1, (1,), np.int64)).choices == (MOST_WHOLE,)
    with pytest.raises(SpecError, match="not supported"):
        Actions.of(gym.spaces.Box(0, MOST_WHOLE, (1,), np.int64))


@pytest.mark.parametrize(
    ("parts", "lanes"),
    [
        ({"a": np.zeros((2, 3)), "b": np.zeros(2)}, 3),
        ({"a": np.zeros((2, 2)), "b": np.zeros(2)}, 2),
        ({"a": np.zeros((2, 3)), "b": np.zeros(3)}, 2),
        ({"a": np.zeros((2, 3)), "b": np.zeros((2, 2))}, 2),
    ],
)
def test_parts_that_do_not_fit_their_lanes_are_refused(parts: dict, lanes: int) -> None:
    observations = Observations.of(gym.spaces.Dict({"a": gym.spaces.Box(0.0, 1.0, (3,)), "b": gym.spaces.Discrete(4)}))
    sound = {"a": np.zeros((2, 3)), "b": np.zeros(2)}
    assert observations.fitted(sound, 2)["b"].shape == (2,)
    assert observations.rows(sound).shape == (2, 4)
    with pytest.raises(SpecError, match="a part of the observations has shape"):
        observations.fitted(parts, lanes)


def test_observations_of_another_size_are_refused() -> None:
    observations = Observations.of(gym.spaces.Box(-1.0, 1.0, (2, 3)))
    assert observations.rows(np.zeros((5, 2, 3))).shape == (5, 6)
    for wrong in (np.zeros((5, 2, 2)), np.zeros(()), np.zeros((5, 7))):
        with pytest.raises(SpecError, match="an observation has 6 numbers"):
            observations.rows(wrong)
    check_fit("it", 6, observations)
    with pytest.raises(PolicyError, match="it takes observations of 5 numbers, the environment's have 6"):
        check_fit("it", 5, observations)
