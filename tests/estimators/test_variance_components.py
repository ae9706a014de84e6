"""Shares of variance that no regression could find: known by construction, and on the bandit by its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.estimators.variance_components import shares, variance_components
from tests.helpers import trial


def kernel(features: np.ndarray) -> np.ndarray:
    features = features - features.mean(axis=0)
    found = features @ features.T
    return found / found.diagonal().mean()


@pytest.mark.statistical
def test_shares_of_more_weights_than_values(base_seed):
    """100 values, 150 features of one kind and 5 of another, shares 0.6 and 0.2, 60 times: the mean share has a standard
    error of 0.02 (its jackknife error is 0.15 a time). P(false) ≤ 1e-4 at 5 standard errors. Catches shares that are off
    by 0.2, such as kernels that are swapped, and errors that are off by a factor of 2."""
    rng = np.random.default_rng(base_seed)
    found = []
    for _ in range(60):
        many, few = rng.normal(size=(100, 150)), rng.normal(size=(100, 5))
        values = math.sqrt(0.6 / 150) * many @ rng.normal(size=150) + math.sqrt(0.2 / 5) * few @ rng.normal(size=5)
        values += math.sqrt(0.2) * rng.normal(size=100)
        found.append([(part.share, part.error) for part in shares(values, [kernel(many), kernel(few)])])
    (many_share, many_error), (few_share, few_error) = np.mean(found, axis=0)
    assert abs(many_share - 0.6) < 0.2
    assert abs(few_share - 0.2) < 0.15
    spread = np.std(found, axis=0)[:, 0]
    assert 0.5 < many_error / spread[0] < 2.0
    assert 0.4 < few_error / spread[1] < 2.5


def test_the_bandits_reward_noise_is_not_its_actions():
    """Of the bandit's variance 0.82 is noise of the rewards (docs/intervals.md); 512 episodes tell it to 0.1."""
    domain = get_domain("bandit")
    data = trial("bandit", "os", episodes=512)
    found = variance_components(data, domain.policy())
    assert found.starts is None
    assert found.actions.share == pytest.approx(0.18, abs=5 * max(found.actions.error, 0.02))
    assert found.actions.error < 0.1


def test_values_without_spread_have_no_shares():
    assert [part.error for part in shares(np.ones(9), [np.eye(9)])] == [math.inf]
    assert shares(np.arange(9.0), []) == []


def test_nothing_is_known_of_a_policy_without_probabilities():
    assert variance_components(trial("bandit", "os", episodes=20), None).actions is None
