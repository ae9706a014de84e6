"""`auto` on tables: counts stay near their expectation."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.domains.tabular import tabular_environment
from evenroll.policies import TabularSoftmax
from evenroll.policies.heads import LEAST_RATIO
from evenroll.samplers import Auto, OnPolicy, Sampler
from evenroll.samplers.auto_table import GAIN_TABLE, PRIOR_OF_TIME
from tests.helpers import trial


@pytest.mark.statistical
def test_counts_of_a_table_stay_within_a_few_of_their_expectation(base_seed: int) -> None:
    """On-policy the largest deviation grows as √visits: 120 ± 37 after 20,000 episodes (60 runs: 57 … 203), under `auto` it
    is 1.2 ± 0.2 (0.7 … 1.6). P(false) ≤ 1e-6: 4 is 14 standard deviations off, and all of 30 deviations of which each has a
    standard deviation of 40 or more would have to stay below 20. Catches deviations that grow."""
    policy = get_domain("gridworld").policy()
    assert isinstance(policy, TabularSoftmax)

    def largest(sampler: Sampler) -> float:
        data = trial("gridworld", sampler, (base_seed,), episodes=20_000)
        counts = np.zeros((16, 4))
        np.add.at(counts, (data.column("observations")[:, 0].astype(int), data.column("actions")[:, 0].astype(int)), 1)
        return float(np.abs(counts - counts.sum(axis=1, keepdims=True) * policy.table).max())

    assert largest(Auto()) < 4.0 < 20.0 < largest(OnPolicy())


@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_a_table_is_tilted_by_its_definition(gamma: float) -> None:
    """π_b recomputed step by step from the sums N, Σγ²ᵗt, Σγ²ᵗt², S = Σγᵗx and Σγᵗtx of each state. With γ = 1 a forgotten
    γᵗ does not show."""
    policy = get_domain("gridworld").policy()
    assert isinstance(policy, TabularSoftmax)
    data = trial("gridworld", Auto(), gamma=gamma, steps=3000)
    first = np.concatenate([[0], data.ends])
    visits, N, ones, twos = np.zeros((4, 16))
    S, late = np.zeros((2, 16, 4))
    for k in range(3000):
        s, a, t = int(data.observations[k, 0]), int(data.actions[k, 0]), k - first[first <= k].max()
        pi, by = policy.table[s], np.zeros(4)
        if N[s] > 0:
            mean = ones[s] / N[s]
            V = max(twos[s] - ones[s] * mean, 0.0) + 1.0
            prior = PRIOR_OF_TIME * (t - mean) / V
            leverage = (1.0 + prior * (t - mean) * N[s]) / visits[s]
            by = GAIN_TABLE * gamma**t * (S[s] / N[s] + prior * (late[s] - mean * S[s])) / leverage
        b = pi * np.maximum(1.0 - (by - pi @ by), LEAST_RATIO)
        assert data.log_b[k] == pytest.approx(np.log(b[a] / b.sum()), abs=1e-8)
        x = np.eye(4)[a] - pi
        visits[s] += 1.0
        N[s], ones[s], twos[s] = (total + gamma ** (2 * t) * t**i for i, total in enumerate((N[s], ones[s], twos[s])))
        S[s], late[s] = S[s] + gamma**t * x, late[s] + gamma**t * t * x
    assert np.abs(data.log_b - data.log_e).max() > 0.5


def test_the_largest_divergence_is_kept_beside_an_impossible_action() -> None:
    """KL ≤ 1e-4 leaves an action of probability p ≥ 0.2 a ratio within √(2 · 1e-4 / p) ≈ 0.03 of 1."""
    policy = TabularSoftmax.from_probabilities([[0.2, 0.0, 0.5, 0.3], [0.0, 0.4, 0.2, 0.4]])
    env = tabular_environment(np.full((2, 4, 2), 0.5), np.zeros((2, 4)), [0.5, 0.5])
    free = trial("gridworld", Auto(), policy=policy, env=env, steps=600)
    held = trial("gridworld", Auto(max_kl=1e-4), policy=policy, env=env, steps=600)
    assert np.abs(free.log_b - free.log_e).max() > 0.3
    assert 0.005 < np.abs(held.log_b - held.log_e).max() < 0.04
    for data in (free, held):
        assert set(zip(data.observations[:, 0], data.actions[:, 0], strict=True)) == {
            (0, 0),
            (0, 2),
            (0, 3),
            (1, 1),
            (1, 2),
            (1, 3),
        }
