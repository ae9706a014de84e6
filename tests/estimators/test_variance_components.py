"""Shares of variance that no regression could find: known by construction, and on the bandit by its definition."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.estimators.start_part import Starts
from evenroll.estimators.variance_components import _inverse, _start_kernel, shares, variance_components
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


@pytest.mark.statistical
@pytest.mark.parametrize("sampler", ["os", "auto"])
def test_the_share_of_the_actions_is_right_where_it_is_known(sampler, base_seed):
    """The bandit's is that of its arms' means, 0.18. 80 runs of 256 episodes: their mean has a standard error of 0.009, and
    0.02 may be missing with `auto`, whose episodes depend on each other. P(false) ≤ 1e-4 at 0.06. Catches a kernel in other
    units than those in which luck varies by 1, which finds 0.09."""
    domain = get_domain("bandit")
    policy, env = domain.policy(), domain.environment(None)
    pi, means, scales = policy.table[0], env.params[1:31], env.params[31:]
    between = pi @ np.square(means - pi @ means)
    known = between / (between + pi @ np.square(scales))
    runs = [trial("bandit", sampler, seed=(base_seed, i), episodes=256) for i in range(80)]
    found = [variance_components(data, policy).actions.share for data in runs]
    assert np.mean(found) == pytest.approx(known, abs=0.06)


@pytest.mark.statistical
def test_the_share_of_the_starts_does_not_depend_on_their_units(base_seed):
    """What matters is a difference of two entries that vary together ten times as much: 100 starts, 30 times, share 0.5. The
    mean has a standard error of 0.03. P(false) ≤ 1e-4 at 0.15. Catches a kernel of features that are not in units of their
    joint spread, which finds less than 0.1."""
    rng = np.random.default_rng(base_seed)
    found = []
    for _ in range(30):
        x = rng.normal(size=(1100, 3)) @ np.array([[1.0, 1.0, 1.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.1]])
        values = math.sqrt(0.5) * 10.0 * (x[:100, 1] - x[:100, 0]) + math.sqrt(0.5) * rng.normal(size=100)
        found.append(shares(values, [_start_kernel(Starts(x[:100], x[100:]))])[0].share)
    assert np.mean(found) == pytest.approx(0.5, abs=0.15)


def test_values_without_spread_have_no_shares():
    assert [part.error for part in shares(np.ones(9), [np.eye(9)])] == [math.inf]
    assert shares(np.arange(9.0), []) == []


def test_starts_that_do_not_vary_have_no_share():
    data = trial("cartpole", "os", episodes=12)
    constant = dataclasses.replace(data, observations=np.zeros_like(data.observations), resets=np.zeros((9, 4)))
    assert variance_components(constant, get_domain("cartpole").policy()).starts is None
    assert not _inverse(np.zeros((3, 3))).any()


def test_nothing_is_known_of_a_policy_without_probabilities():
    assert variance_components(trial("bandit", "os", episodes=20), None).actions is None
