"""The action part of a table: its scores, and the model that is solved for the worth of every action."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from evenroll.collection.rollouts import Rollouts
from evenroll.domains.catalogue import get_domain
from evenroll.estimators import table_action_part
from evenroll.estimators.score_regression import action_parts, score_regression
from evenroll.estimators.table_action_part import Counts, advantages_of_model
from evenroll.policies import TabularSoftmax
from tests.helpers import trial


def test_table_scores_are_those_of_the_policy():
    policy, data = get_domain("gridworld").policy(), trial("gridworld", episodes=20)
    states, sums = data.observations[:, 0].astype(int), np.zeros(policy.table.shape)
    np.add.at(sums, states, policy.distribution.scores(policy.logits[states], data.actions))
    np.testing.assert_allclose(sums.ravel(), policy.score_sum(data.observations, data.actions), atol=1e-9)


@pytest.mark.parametrize("dense", [1_000_000, 0])
def test_model_advantages_are_dynamic_programming(dense: int, monkeypatch: pytest.MonkeyPatch):
    """A complete random MDP with termination: Q − V of the linear system, mean 0 under π; unseen: average."""
    rng = np.random.default_rng(0)
    S, A, gamma = 5, 3, 0.9
    P = rng.dirichlet(np.ones(S + 1), size=(S, A))[:, :, :S]  # the rest of the mass ends the episode
    r, pi = rng.normal(size=(S, A)), rng.dirichlet(np.ones(A), size=S)
    V = np.linalg.solve(np.eye(S) - gamma * np.einsum("sa,sat->st", pi, P), (pi * r).sum(axis=1))
    exact = r + gamma * P @ V - V[:, None]
    before, after = np.repeat(np.arange(S * A), S), np.tile(np.arange(S), S * A)
    visits = np.full((S, A), 1000.0)

    def advantages(horizon: int | None) -> np.ndarray:
        counts = Counts((P * visits[:, :, None]).ravel(), (r * visits).ravel(), visits.ravel())
        return advantages_of_model(counts, before, after, pi, gamma, horizon)

    monkeypatch.setattr(table_action_part, "DENSE", dense)
    for horizon in (None, 400):
        np.testing.assert_allclose(advantages(horizon), exact, atol=1e-10)
    visits[2, 1] = 0.0
    thin = advantages(None)
    np.testing.assert_allclose((pi * thin).sum(axis=1), 0.0, atol=1e-12)
    assert abs(thin[2, 1]) < 1e-12


def test_a_large_table_is_served_in_seconds_and_megabytes():
    """3,000 states, 20,000 steps: a full model would take 1.4 GB for each of ten folds, and 11 systems of 3,000 rows."""
    states, actions, episodes = 3000, 4, 2000
    rng = np.random.default_rng(0)
    policy = TabularSoftmax(rng.normal(size=(states, actions)))
    lengths = rng.integers(5, 15, size=episodes)
    ends = np.cumsum(lengths)
    total = int(ends[-1])
    seen, taken = rng.integers(states, size=(total, 1)).astype(float), rng.integers(actions, size=(total, 1)).astype(float)
    rewards = rng.normal(size=total)
    returns = np.add.reduceat(rewards, ends - lengths)
    data = Rollouts(1.0, total, returns, ends, np.ones(episodes, bool), observations=seen, actions=taken, rewards=rewards)
    tracemalloc.start()
    started = time.perf_counter()
    fit = score_regression(data, policy)
    seconds, peak = time.perf_counter() - started, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(fit.value)
    assert peak < 200e6
    assert seconds < 60.0


def test_one_taking_of_an_action_is_not_proof():
    policy, data = get_domain("gridworld").policy(), trial("gridworld", "ros", (3,), episodes=400)
    total = int(data.ends[-1])
    cells = data.observations[:total, 0] * 4 + data.actions[:total, 0]
    counts = np.unique(cells, return_counts=True)[1]
    fit = score_regression(data, policy)
    assert fit.exact == (fit.unseen == 0 and counts.min() >= 2)


def test_the_model_of_an_episode_does_not_know_it():
    """Multiply one episode's rewards: the action part of its own fold stays, to the last bit; others change."""
    policy, data = get_domain("gridworld").policy(), trial("gridworld", episodes=60)
    rewards = data.rewards.copy()
    rewards[data.ends[6] : data.ends[7]] *= 3.0  # episode 7, fold 7
    before, after = (action_parts(x, policy)[0].apart for x in (data, replace(data, rewards=rewards)))
    own = np.arange(60) % 10 == 7
    np.testing.assert_array_equal(before[own], after[own])
    assert (before[~own] != after[~own]).any()
