"""Training: every built-in domain has its recipe in its own file, and a domain of one's own needs none."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.domains.domain import Recipe, provenance
from evenroll.domains.tabular import tabular_domain
from evenroll.policies import MLP, TabularSoftmax
from evenroll.study.training import BATCH, NETWORK_RECIPE, TABLE_RECIPE, initial_policy, recipe_of, reinforce
from tests.domains.walk import walk

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


def test_the_first_policy_of_a_table_is_uniform() -> None:
    policy = initial_policy(TWO_ARMS, np.random.default_rng(0))
    np.testing.assert_array_equal(policy.table, [[0.5, 0.5]])


def test_the_provenance_command_makes_the_shipped_policy_again() -> None:
    stored = provenance("gridworld")
    policy = reinforce(
        get_domain("gridworld"), episodes=stored["episodes"], learning_rate=stored["learning_rate"], seed=stored["seed"]
    )
    np.testing.assert_allclose(policy.table, get_domain("gridworld").policy().table, atol=1e-9)
