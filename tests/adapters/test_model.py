"""Anybody's policy: functions, models, and what does not fit."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import evenroll
from evenroll.adapters.model import as_model
from evenroll.domains.catalogue import get_domain
from evenroll.errors import PolicyError, PolicyFault, SpecError
from evenroll.policies import TabularSoftmax
from tests.helpers import BOX, DISCRETE, Walk
from tests.torch_helpers import Head, categorical, logits, normal


def test_a_function_of_the_observation() -> None:
    """Probabilities of a numbered state become a table; of a vector they are balanced on the vector; an action is played."""
    table = get_domain("gridworld").policy().table
    env = gym.make("evenroll/GridWorld-v0")
    result = evenroll.evaluate(env, lambda s: table[int(s)], episodes=200)
    assert result.policy == "table of 16 states"
    assert result.value == pytest.approx(evenroll.evaluate(env, TabularSoftmax(np.log(table)), episodes=200).value)

    def shy(x):
        p = 1.0 / (1.0 + math.exp(-float(x[0])))
        return [1.0 - p, p, 0.0]

    walk = Walk(DISCRETE)
    assert evenroll.evaluate(walk, shy, episodes=40).policy == "shy, 3 features"
    assert set(walk.seen) == {-1, 0}
    result = evenroll.evaluate(Walk(DISCRETE), lambda x: 1, episodes=10)
    assert (result.value, result.action_share) == (6.0, None)  # equal returns have no variance to share
    assert "no action noise to balance" in result.in_words()
    with pytest.raises(PolicyError, match="sum to 1"):
        evenroll.evaluate(Walk(DISCRETE), lambda x: [0.5, 0.5, 0.5], episodes=3)


def test_policies_and_spaces_that_do_not_fit() -> None:
    nothing = nn.Sequential(nn.Linear(3, 3))
    with torch.no_grad():
        nothing[0].bias.fill_(0.0)
        nothing[0].weight.fill_(1e38)
    with pytest.raises(PolicyFault, match="output is not finite"):
        evenroll.evaluate(Walk(DISCRETE), nothing.double().float(), episodes=30)
    cases = [
        (Walk(DISCRETE), Head(3, 4, categorical), "shape"),
        (Walk(DISCRETE), Head(4, 3, categorical), "fails on observations"),
        (Walk(DISCRETE), Head(3, 3, normal), "discrete"),
        (Walk(BOX), Head(3, 3, normal), "3 real actions"),
        (Walk(BOX), Head(3, 2, logits), "tensor for real actions"),
        (Walk(DISCRETE), get_domain("cartpole").policy(), "observations of 4 numbers"),
        (Walk(gym.spaces.Discrete(3), shape=(4,)), get_domain("cartpole").policy(), "2 actions"),
        (Walk(DISCRETE), 7, "is no policy"),
        (Walk(DISCRETE), Head, "the class Head is no policy yet: make an object of it"),
        (Walk(DISCRETE), nothing.state_dict(), r"load_state_dict\(…\), and give the module"),
    ]
    for env, policy, text in cases:
        with pytest.raises(PolicyError, match=text):
            evenroll.evaluate(env, policy, episodes=3)
    for env, text in (("NoSuchEnv-v7", "no environment"), (3, "is no environment")):
        with pytest.raises(SpecError, match=text):
            evenroll.evaluate(env, Head(3, 3, logits), episodes=3)
    with pytest.raises(SpecError, match="wrap the environment"):
        as_model(lambda x: [1.0], gym.spaces.Dict({}), DISCRETE)
    with pytest.raises(SpecError, match="built-in domains only"):
        evenroll.evaluate(Walk(DISCRETE), Head(3, 3, logits), sampler="bpg:batch=10,step_size=0.1", episodes=3)
