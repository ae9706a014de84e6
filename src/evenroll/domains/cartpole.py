"""CartPole with Gymnasium's physics (Euler, 0.02 s): push left or right. Reward 1 a step.

Parameter: `actions=3` adds the action of not pushing at all.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from evenroll.domains.domain import Domain, Recipe
from evenroll.domains.environment import RESET, STEP, Environment
from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Floats, piece
from evenroll.engine.scalars import whole
from evenroll.errors import SpecError

NAME = "cartpole"
HORIZON = 200
GYMNASIUM_ID = "evenroll/CartPole-v0"
GRAVITY, LENGTH, TAU = 9.8, 0.5, 0.02
TOTAL_MASS, POLE_MASS = 1.1, 0.1
X_LIMIT = 2.4
ANGLE_LIMIT = 12 * 2 * math.pi / 360
FORCES = {2: (-10.0, 10.0), 3: (-10.0, 0.0, 10.0)}  # by number of actions
PAPER = {
    "ros": {"alpha": 10.0},
    "init+ros": {"alpha": 10.0},
    "ros-episode": {"alpha": 10.0},
    "ros-head": {"alpha": 10.0},
    "roa": {"rho": 0.05},
    "bpg": {"batch": 10, "step_size": 5e-5},
}
RECIPE = Recipe(episodes=1000, learning_rate=2.9e-4)  # episodes: the paper's; T̄ comes out near its 48.5


def domain(actions: float = 2) -> Domain:
    """CartPole with two forces, or with three."""
    if actions not in FORCES:
        raise SpecError(f"{NAME}: actions must be 2 or 3, not {actions:g}")
    make = functools.partial(environment, FORCES[int(actions)])
    return Domain(NAME, 0.99, HORIZON, make, None, PAPER, NAME, RECIPE, GYMNASIUM_ID)


def environment(forces: tuple[float, ...], rng: np.random.RandomState | None) -> Environment:
    """params: the force of each action."""
    return Environment(reset, step, np.array(forces), 4, 4, len(forces), 1, 4, 0)


@helper
def physics(state: Floats, force: float) -> int:
    """Advance one step; 1 if the cart or the pole left its range."""
    x, x_dot, angle, angle_dot = state[0], state[1], state[2], state[3]
    cos, sin = math.cos(angle), math.sin(angle)
    temp = (force + POLE_MASS * LENGTH * (angle_dot * angle_dot) * sin) / TOTAL_MASS
    angle_acc = (GRAVITY * sin - cos * temp) / (LENGTH * (4.0 / 3.0 - POLE_MASS * (cos * cos) / TOTAL_MASS))
    acc = temp - POLE_MASS * LENGTH * angle_acc * cos / TOTAL_MASS
    state[0] = x + TAU * x_dot
    state[1] = x_dot + TAU * acc
    state[2] = angle + TAU * angle_dot
    state[3] = angle_dot + TAU * angle_acc
    outside = (abs(state[0]) > X_LIMIT) | (abs(state[2]) > ANGLE_LIMIT)
    return 1 if outside else 0


@piece(RESET)
def reset(params: Floats, state: Floats, u: Floats) -> None:
    for i in range(4):
        state[i] = 0.1 * u[i] - 0.05


@piece(STEP)
def step(params: Floats, state: Floats, action: Floats, u: Floats, reward: Floats) -> int:
    reward[0] = 1.0
    return physics(state, params[whole(action[0])])
