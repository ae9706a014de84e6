"""Our own policies in environments: spaces that fit, and their likeliest actions."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import evenroll
from evenroll.adapters.model import as_model
from evenroll.policies import TabularSoftmax
from tests.helpers import BOX, DISCRETE, RING_LOGITS, Ring, Walk, make_mlp


def test_the_likeliest_actions() -> None:
    """Of tables, networks and Gaussians, in spaces that do not start at 0. Before, only models of others had them."""
    table = as_model(TabularSoftmax(RING_LOGITS), Ring.observation_space, Ring.action_space, deterministic=True)
    np.testing.assert_array_equal(table.decide(np.arange(3, 7)), RING_LOGITS.argmax(axis=1) + 1)
    rng = np.random.default_rng(0)
    network = make_mlp(rng, widths=(3, 8), outputs=3)
    x = rng.normal(size=(20, 3)).astype(np.float32)
    decided = as_model(network, Walk(DISCRETE).observation_space, DISCRETE, deterministic=True).decide(x)
    np.testing.assert_array_equal(decided, [int(network.outputs(row).argmax()) - 1 for row in x])
    gaussian = make_mlp(rng, widths=(3, 8), head="gaussian", outputs=4, mean="tanh")
    decided = as_model(gaussian, Walk(BOX).observation_space, BOX, deterministic=True).decide(x)
    means = np.tanh([gaussian.outputs(row)[0::2] for row in x])
    np.testing.assert_allclose(decided, np.clip(means, -0.5, 0.5), atol=1e-5)
    result = evenroll.evaluate(Walk(BOX), gaussian, episodes=5, deterministic=True)
    assert (result.policy, result.sampler) == ("deterministic MLP", "os")


def test_a_table_that_leaves_nothing_to_chance_is_deterministic() -> None:
    result = evenroll.evaluate(Ring(), TabularSoftmax(np.where(RING_LOGITS > -0.6, 0.0, -np.inf)), episodes=3)
    assert result.policy == "deterministic table"


def test_spaces_are_the_policys_own_where_none_are_given() -> None:
    model = as_model(TabularSoftmax(RING_LOGITS), None, None)
    assert (model.observations.space, model.actions.space) == (gym.spaces.Discrete(4), gym.spaces.Discrete(2))
    model = as_model(make_mlp(np.random.default_rng(0), widths=(3, 8), head="gaussian", outputs=4), None, None)
    assert (model.observations.shape, model.actions.real) == ((3,), 2)
