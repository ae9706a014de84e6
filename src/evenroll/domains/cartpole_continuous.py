"""CartPole pushed by a real number: the force is 30 times the action, which is not clipped. Reward 1 a step."""

from __future__ import annotations

import numpy as np

from evenroll.domains.cartpole import physics, reset
from evenroll.domains.domain import Domain, Recipe
from evenroll.domains.environment import STEP, Environment
from evenroll.engine.pieces import Floats, piece

NAME = "cartpole-continuous"
HORIZON = 200
GYMNASIUM_ID = "evenroll/CartPoleContinuous-v0"
FORCE = 30.0  # of the action 1, in the paper
PAPER = {
    "ros": {"alpha": 0.1},
    "init+ros": {"alpha": 0.1},
    "ros-episode": {"alpha": 0.1},
    "ros-head": {"alpha": 0.1},
    "roa": {"rho": 0.05},
    "bpg": {"batch": 10, "step_size": 1e-6},
}
RECIPE = Recipe(episodes=3000, learning_rate=7e-5)  # episodes: the paper's; T̄ comes out near its 49.6


def domain() -> Domain:
    """CartPole with a continuous action."""
    return Domain(NAME, 0.99, HORIZON, environment, None, PAPER, NAME, RECIPE, GYMNASIUM_ID)


def environment(rng: np.random.RandomState | None) -> Environment:
    """params: the force of the action 1."""
    return Environment(reset, step, np.array([FORCE]), 4, 4, None, 1, 4, 0)


@piece(STEP)
def step(params: Floats, state: Floats, action: Floats, u: Floats, reward: Floats) -> int:
    reward[0] = 1.0
    return physics(state, params[0] * action[0])
