"""Compiled lanes: every road chooses the same actions, and lanes share one balance."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Normal

from evenroll.collection.environments import collect
from evenroll.collection.lanes import SOUND, Lanes, rooms
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.evaluation.collector import Collector
from evenroll.policies import MLP, External
from evenroll.samplers import Auto, OnPolicy
from evenroll.samplers.auto_network import at_once
from evenroll.samplers.auto_state import Memory
from tests.helpers import double_policy


class _AsLinear(nn.Module):
    """One of our MLPs as a torch module with linear layers."""

    def __init__(self, policy: MLP) -> None:
        super().__init__()
        self.policy = policy
        if policy.norm is not None:
            mean, var, weight, bias = (torch.tensor(x, dtype=torch.float32) for x in policy.norm)
            self.scale, self.shift = weight / torch.sqrt(var + 1e-5), bias - mean * weight / torch.sqrt(var + 1e-5)
        tensors = [*policy.layers, (policy.head_weight, policy.head_bias)]
        self.layers = nn.ModuleList(nn.Linear(w.shape[1], w.shape[0]) for w, _ in tensors)
        with torch.no_grad():
            for layer, (w, b) in zip(self.layers, tensors, strict=True):
                layer.weight.copy_(torch.tensor(w))
                layer.bias.copy_(torch.tensor(b))

    def forward(self, x):
        if self.policy.norm is not None:
            x = x * self.scale + self.shift
        for layer in self.layers[:-1]:
            x = layer(x)
            x = torch.relu(x) if self.policy.activation == "relu" else torch.tanh(x)
        out = self.layers[-1](x)
        if self.policy.head == "softmax":
            return Categorical(logits=out)
        mean = torch.tanh(out[:, 0::2]) if self.policy.mean == "tanh" else out[:, 0::2]
        return Normal(mean, torch.nn.functional.softplus(out[:, 1::2]))


@pytest.mark.parametrize("name", ["cartpole", "cartpole-continuous"])
def test_every_road_chooses_the_same_actions(name: str) -> None:
    """Auto on our own network: the collector, the compiled lanes (bit for bit), and the same network through torch
    with features and outputs handed in (to single precision)."""
    domain = get_domain(name)
    policy = domain.policy()
    env = gym.make(f"evenroll/{'CartPole' if name == 'cartpole' else 'CartPoleContinuous'}-v0")
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    collector = Collector(policy, "auto", gamma=0.99, **spaces)
    for _ in collect(collector, env, steps=400):
        pass
    data = collector.rollouts()
    lanes = Lanes(policy, Auto(), (0,), gamma=0.99)
    ends = set(data.ends.tolist())
    for k in range(400):
        assert lanes.advance(data.observations[k : k + 1], np.ones(1, np.int64)) == SOUND
        np.testing.assert_array_equal(lanes.actions[0], data.actions[k])
        if k + 1 in ends:
            lanes.end(0)
    other = Collector(_AsLinear(policy), "auto", gamma=0.99, **spaces)
    assert isinstance(other.model.engine, External)
    for _ in collect(other, env, steps=400):
        pass
    theirs = other.rollouts()
    np.testing.assert_allclose(theirs.actions[:200], data.actions[:200], atol=2e-3)
    np.testing.assert_allclose(theirs.log_b[:200], data.log_b[:200], atol=5e-3)


def test_lanes_share_one_balance_without_delay() -> None:
    """The k-th action of three lanes with the same observations is that of one lane that saw them in turn.

    The mean time of a step, from which the length of episodes is told, is set by hand: one lane sees one long episode."""
    domain = get_domain("cartpole")
    policy = domain.policy()
    driver = Driver(policy, OnPolicy(), (3,), gamma=1.0, horizon=8, record_steps=True)
    initial = driver.run(domain.trial_environment((3,)), episodes=40)
    x = np.random.default_rng(0).standard_normal((20, 12, 3, 4)) * 0.05
    nobody, strayed = np.zeros(3, dtype=bool), 0.0
    for seed in range(20):
        together, alone = (Collector(policy, lanes=n, seed=seed, initial=initial) for n in (3, None))
        memory = Memory(alone.stepper.balance.memory)
        before = memory.times
        for t in range(12):
            actions = together.act(x[seed, t])
            ratios = together.stepper.log_b - together.stepper.log_e
            strayed = max(strayed, float(np.abs(ratios).max()))
            together.observe(np.ones(3), nobody, nobody)
            for lane in range(3):
                memory.times = before + 3 * t * (t - 1) / 2 + lane * t
                assert actions[lane] == alone.act(x[seed, t, lane])
                theirs = float((alone.stepper.log_b - alone.stepper.log_e)[0])
                assert ratios[lane] == pytest.approx(theirs, rel=1e-9, abs=1e-12)
                alone.observe(1.0, False, False)
    assert strayed > 0.05


@pytest.mark.parametrize("name", ["gridworld", "cartpole"])
def test_lanes_that_end_at_different_times_have_clocks_of_their_own(name: str) -> None:
    """Episodes of 2, 3 and 5 steps side by side, against one lane whose time, discount and surprise are set by hand."""
    policy, gamma, lengths = double_policy(name), 0.8, np.array([2, 3, 5])
    rng = np.random.default_rng(0)
    shape, nobody = (60, 3) if name == "gridworld" else (60, 3, 4), np.zeros(3, dtype=bool)
    x = rng.integers(16, size=shape) if name == "gridworld" else 0.05 * rng.standard_normal(shape)
    together, alone = Collector(policy, gamma=gamma, lanes=3, seed=1), Lanes(policy, Auto(), (1,), gamma=gamma)
    assert together.stepper is not None
    assert Auto.trajectory == ("t", "discount")
    times, discounts, every_time = np.zeros(3), np.ones(3), 0.0
    surprise = alone.balance.vectors[len(alone.balance.vectors) - Auto().each(policy) :]
    surprises = np.zeros((3, len(surprise)))
    for observations in x:
        together.act(observations)
        for lane in range(3):
            alone.trajectories[0], surprise[...] = (times[lane], discounts[lane]), surprises[lane]
            assert alone.advance(np.array(observations[lane], float).reshape(1, -1), np.ones(1, np.int64)) == SOUND
            np.testing.assert_array_equal(alone.actions[0], together.stepper.actions[lane])
            assert alone.log_b[0] == together.stepper.log_b[lane]
            surprises[lane] = surprise
        every_time += times.sum()
        times, discounts = times + 1, discounts * gamma
        over = times == lengths
        np.testing.assert_array_equal(together.observe(np.ones(3), over, nobody), over)
        times[over], discounts[over] = 0.0, 1.0
        for lane in np.flatnonzero(over):
            surprise[...] = surprises[lane]
            alone.end(0)
            surprises[lane] = 0.0
    assert np.abs(together.rollouts().log_b - together.rollouts().log_e).max() > 0.01
    assert Memory(together.stepper.balance.memory).times == every_time
    assert sorted(set(together.rollouts().lengths)) == [2, 3, 5]


def test_rooms_of_trajectories_that_run_side_by_side_are_not_shared() -> None:
    """Two lanes: 0 and 1 run together, 2 follows on 1, 3 on 0; 3 and 2 are still running."""
    owner, last = np.array([0, 1, 0, 1, 0, 2, 0, 2, 3, 2]), np.array([0, 0, 0, 1, 0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(rooms(owner, last, 4, 2), [0, 1, 1, 0])
    with pytest.raises(SpecError, match="more than 1 trajectories"):
        rooms(owner, last, 4, 1)
    np.testing.assert_array_equal(rooms(np.zeros(3, np.int64), np.array([0, 1, 0]), 2, 1), [0, 0])  # the second has no steps


def test_after_a_replay_each_lane_has_the_surprise_of_its_own_trajectory() -> None:
    """Lane 0 is dropped and lane 1 goes on: what its steps added lies with lane 1, and lane 0 begins with nothing."""
    policy, rng = double_policy("cartpole"), np.random.default_rng(2)
    lanes = Lanes(policy, Auto(), (1,), gamma=0.9, lanes=2)
    x, actions = 0.05 * rng.standard_normal((6, 4)), rng.integers(2, size=(6, 1)).astype(float)
    owner, last, nothing = np.zeros(6, dtype=np.int64), np.zeros(6, dtype=np.int64), np.zeros(6)
    lanes.replay(owner, last, x, actions, nothing, nothing, [-1, 0])
    tails = lanes.balance.vectors[-2 * Auto().each(policy) :].reshape(2, -1)
    psi = 0.9 ** np.arange(6)[:, None] * policy.features(x)
    surprise = (actions == 0).astype(float) - np.array([np.exp(policy.log_prob(o, np.zeros(1))) for o in x])[:, None]
    later = np.array([1.0 - at_once(k + 1.0, k * (k - 1) / 2) for k in range(6)])  # the share that waits, after k steps
    found = tails[1, : psi.shape[1]]
    np.testing.assert_allclose(found, (later[:, None] * surprise * psi).sum(axis=0), rtol=1e-6, atol=1e-12)
    assert np.abs(found).max() > 1e-6
    np.testing.assert_array_equal(tails[0], 0.0)
