"""Training: every built-in domain has its recipe in its own file, and a domain of one's own needs none."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.domains.domain import Recipe, provenance
from evenroll.domains.tabular import tabular_domain
from evenroll.policies import MLP, TabularSoftmax
from evenroll.samplers import OnPolicy
from evenroll.study.training import (
    BATCH,
    NETWORK_RECIPE,
    TABLE_RECIPE,
    _advantages,
    initial_policy,
    recipe_of,
    reinforce,
)
from tests.domains.walk import walk
from tests.helpers import weighted_data

TWO_ARMS = tabular_domain("two arms", np.ones((1, 2, 1)), [[0.0, 1.0]], [1.0], horizon=1)


@pytest.mark.parametrize("name", DOMAINS)
def test_a_built_in_domain_is_trained_by_its_own_recipe(name: str) -> None:
    domain = get_domain(name)
    assert domain.recipe is not None
    assert recipe_of(domain) == domain.recipe
    short = dataclasses.replace(domain, recipe=Recipe(2 * BATCH, domain.recipe.learning_rate))
    given = reinforce(domain, episodes=2 * BATCH, learning_rate=domain.recipe.learning_rate, seed=3)
    np.testing.assert_array_equal(reinforce(short, seed=3).theta, given.theta)
    assert not np.array_equal(reinforce(short, learning_rate=1.0, seed=3).theta, given.theta)
    domain.environment(None).check(given)


def test_without_a_recipe_there_is_a_default_for_tables_and_for_networks() -> None:
    assert recipe_of(TWO_ARMS) == TABLE_RECIPE
    assert recipe_of(walk()) == NETWORK_RECIPE


def test_the_default_recipes_make_policies_well_above_random() -> None:
    """Two arms worth 0 and 1: the untrained value is ½. The walk's rewards are places: to the right they are positive."""
    arms = reinforce(TWO_ARMS)
    assert isinstance(arms, TabularSoftmax)
    assert TWO_ARMS.known_truth(arms).value > 0.8
    gained: list[float] = []
    policy = reinforce(walk(), progress=lambda done, g, length: gained.append(g))
    assert isinstance(policy, MLP)
    assert len(gained) == NETWORK_RECIPE.episodes // BATCH
    assert np.mean(gained[-5:]) > np.mean(gained[:5]) + 1.0


def test_batches_are_balanced_by_auto_and_on_policy_otherwise() -> None:
    """Of 16 draws of two equally likely arms `auto` takes 8 of each, give or take one; on-policy that is rarely so."""
    means: dict[str, list[float]] = {"os": [], "auto": []}
    for sampler, found in means.items():
        reinforce(
            TWO_ARMS,
            episodes=20 * BATCH,
            learning_rate=0.0,
            sampler=sampler,
            progress=lambda n, g, t, to=found: to.append(g),
        )
    assert max(abs(g - 0.5) for g in means["auto"]) <= 1 / BATCH
    assert max(abs(g - 0.5) for g in means["os"]) > 2 / BATCH
    balanced = [reinforce(get_domain("cartpole"), episodes=2 * BATCH, seed=3, sampler="auto").theta for _ in range(2)]
    np.testing.assert_array_equal(*balanced)
    assert not np.array_equal(balanced[0], reinforce(get_domain("cartpole"), episodes=2 * BATCH, seed=3).theta)


def test_the_first_policy_of_a_table_is_uniform() -> None:
    policy = initial_policy(TWO_ARMS, np.random.default_rng(0))
    np.testing.assert_array_equal(policy.table, [[0.5, 0.5]])


def test_the_provenance_command_makes_the_shipped_policy_again() -> None:
    stored = provenance("gridworld")
    policy = reinforce(
        get_domain("gridworld"), episodes=stored["episodes"], learning_rate=stored["learning_rate"], seed=stored["seed"]
    )
    np.testing.assert_allclose(policy.table, get_domain("gridworld").policy().table, atol=1e-9)


def test_advantages_by_hand() -> None:
    """Returns-to-go 2, 2 and 4 with γ = ½; the second episode has ended at t = 1 and is worth 0 there."""
    data = weighted_data(np.zeros(3), np.zeros(3), [2, 3], rewards=[1.0, 2.0, 4.0], gamma=1.0)
    np.testing.assert_allclose(_advantages(data, 0.5), [-1.0, 1.0, 1.0], atol=1e-7)


@pytest.mark.parametrize("batches", [1, 2])
def test_the_first_steps_of_a_network_by_hand(batches: int) -> None:
    """Adam's first step is learning rate · sign of the gradient; the statistics are those of the first batch, then half."""
    domain = walk()
    rng = np.random.default_rng([5, 7])
    policy, env = initial_policy(domain, rng), domain.trial_environment((5, 7))
    assert isinstance(policy, MLP)
    theta, first, second = policy.theta.astype(np.float64), 0.0, 0.0
    for batch in range(1, batches + 1):
        driver = Driver(policy, OnPolicy(), (5, 7, batch), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
        data = driver.run(env, episodes=16)
        g = policy.score_sum(data.column("observations"), data.column("actions"), _advantages(data, domain.gamma))
        g = g.astype(float) / 16
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        theta = theta + 0.02 * (first / (1 - 0.9**batch)) / (np.sqrt(second / (1 - 0.999**batch)) + 1e-8)
        states, old = data.column("observations"), policy.norm
        assert old is not None
        weight = 1.0 / batch
        norm = [(1 - weight) * old[i] + weight * x for i, x in enumerate((states.mean(axis=0), states.var(axis=0)))]
        policy = policy.with_theta(theta, (norm[0], norm[1]))
    told: list[tuple[int, float, float]] = []
    trained = reinforce(domain, episodes=16 * batches + 15, learning_rate=0.02, seed=5, progress=lambda *x: told.append(x))
    assert isinstance(trained, MLP)
    np.testing.assert_allclose(trained.theta, policy.theta, rtol=1e-5, atol=1e-7)  # in single precision
    for ours, theirs in zip(trained.norm or (), policy.norm or (), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert told[-1] == (16 * batches, data.returns.mean(), data.lengths.mean())
