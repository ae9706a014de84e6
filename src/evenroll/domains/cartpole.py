"""CartPole with Gymnasium's physics (Euler, 0.02 s): discrete forces or a continuous one. Reward 1 a step."""

from __future__ import annotations

import math

from numba import njit

from evenroll.domains.environment import RESET, STEP
from evenroll.engine.pieces import Floats, piece

GRAVITY, LENGTH, TAU = 9.8, 0.5, 0.02
TOTAL_MASS, POLE_MASS = 1.1, 0.1
X_LIMIT = 2.4
ANGLE_LIMIT = 12 * 2 * math.pi / 360


@njit
def _physics(state: Floats, force: float) -> int:
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
    """params: the force of each action."""
    reward[0] = 1.0
    return _physics(state, params[int(action[0])])


@piece(STEP)
def step_continuous(params: Floats, state: Floats, action: Floats, u: Floats, reward: Floats) -> int:
    """params: force of a unit action (30 in the paper); the action is not clipped."""
    reward[0] = 1.0
    return _physics(state, params[0] * action[0])
