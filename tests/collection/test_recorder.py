"""Act, observe, save and resume, start from data."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest
import torch

import evenroll
from evenroll.collection.environments import collect
from evenroll.domains.catalogue import get_domain
from evenroll.errors import EnvironmentFault, SpecError
from evenroll.evaluation.collector import Collector
from tests.helpers import Walk
from tests.torch_helpers import KINDS, Head


def test_act_and_observe_must_alternate() -> None:
    collector = Collector(get_domain("cartpole").policy())
    with pytest.raises(SpecError, match="before act"):
        collector.observe(1.0, False)
    collector.act(np.zeros(4))
    with pytest.raises(SpecError, match="twice"):
        collector.act(np.zeros(4))


@pytest.mark.statistical
def test_initial_data_is_completed_to_on_policy(base_seed: int) -> None:
    """First data sets that avoided action 1: what follows takes it more often than the policy does, with either engine.
    Eight runs of 180 steps: by 17 ± 4.5 each (60 runs), 137 ± 13 in all. P(false) ≤ 1e-6: 70 is 5.3 standard deviations off.
    Catches on-policy actions: 0 ± 17 in all, above 70 with probability 2e-5."""
    space, outputs, make, _ = KINDS["categorical"]
    surplus = dict.fromkeys((True, False), 0.0)
    for compile, run in itertools.product(surplus, range(8)):
        torch.manual_seed(base_seed + run)
        module, env = Head(3, outputs, make), Walk(space)
        spaces = {"observation_space": env.observation_space, "action_space": space}
        x, a = np.random.default_rng((base_seed, run)).standard_normal((60, 3)), np.tile([0.0, 2.0], 30)[:, None]
        ends = np.arange(6, 61, 6)
        first = evenroll.Rollouts(
            1.0, 60, np.zeros(10), ends, np.ones(10, bool), None, x, a, np.zeros(60), None, np.zeros(60)
        )
        second = Collector(module, "auto", compile=compile, initial=first, seed=base_seed + run, **spaces)
        for _ in collect(second, env, episodes=30):
            pass
        new = second.rollouts().split_initial()[1]
        surplus[compile] += (new.actions[:, 0] == 1).sum() - np.exp(_AsProbabilities(module)(new.observations))[:, 1].sum()
    assert min(surplus.values()) > 70


class _AsProbabilities:
    def __init__(self, module) -> None:
        self.module = module

    def __call__(self, x):
        with torch.no_grad():
            return self.module(torch.as_tensor(x, dtype=torch.float32)).logits.numpy()


def either(observation: np.ndarray) -> list[float]:
    return [0.5, 0.5]


SPACES = {"observation_space": gym.spaces.Box(-9.0, 9.0, (1,)), "action_space": gym.spaces.Discrete(2)}


def test_lanes_are_recorded_each_for_itself() -> None:
    """Three lanes, of which the second ends first and the third pauses: every reward is in the episode that earned it."""
    collector = Collector(either, "os", lanes=3, keep_observations=True, **SPACES)
    for t, (active, ended, cut) in enumerate(
        [([1, 1, 1], [0, 0, 0], [0, 0, 0]), ([1, 1, 0], [0, 1, 0], [0, 0, 0]), ([1, 1, 1], [0, 0, 0], [1, 0, 1])]
    ):
        collector.act(np.full((3, 1), float(t), np.float32), np.array(active, bool))
        rewards = 10.0 ** np.arange(3) * (t + 1)
        infos = [{"is_success": lane == 1} for lane in range(3)]
        over = collector.observe(rewards, np.array(ended, bool), np.array(cut, bool), np.full((3, 1), 7.0 + t), infos)
        assert over.tolist() == [bool(e or c) for e, c in zip(ended, cut, strict=True)]
    data = collector.rollouts()
    assert data.returns.tolist() == [30.0, 6.0, 400.0]  # in the order of their ends
    assert data.terminated.tolist() == [True, False, False]
    assert data.success.tolist() == [1.0, 0.0, 0.0]
    assert data.lengths.tolist() == [2, 3, 2]
    assert (collector.episodes, collector.open_episodes, collector.starts) == (3, 1, 3)
    assert {i: x.tolist() for i, x in collector.last_observations().items()} == {0: [8.0], 1: [9.0], 2: [9.0]}


def test_a_horizon_cuts_and_counts_as_truncated() -> None:
    collector = Collector(either, "os", horizon=2, **SPACES)
    assert [collector.observe(1.0, False) for _ in range(4) if collector.act(np.zeros(1)) is not None] == [
        False, True, False, True,
    ]  # fmt: skip
    assert collector.rollouts().truncated == 2


def test_faults_say_where_they_were_and_keep_what_had_finished() -> None:
    for lanes in (None, 2):
        collector = Collector(either, "os", lanes=lanes, seed=5, **SPACES)
        one = np.zeros(1) if lanes is None else np.zeros((2, 1))
        bad, flags = (np.nan, False) if lanes is None else (np.array([0.0, np.nan]), np.zeros(2, bool))
        collector.act(one)
        collector.observe(1.0 if lanes is None else np.ones(2), True if lanes is None else np.ones(2, bool))
        collector.act(one)
        with pytest.raises(EnvironmentFault, match="gave reward nan") as found:
            collector.observe(bad, flags)
        assert (found.value.episode, found.value.step, found.value.seed) == (1 if lanes is None else 3, 0, 5)
        assert found.value.rollouts.episodes == (lanes or 1)
        assert ("lane 1" in str(found.value)) is (lanes == 2)
        collector = Collector(either, "os", lanes=lanes, **SPACES)
        with pytest.raises(EnvironmentFault, match="not finite"):
            collector.act(one * np.nan)
