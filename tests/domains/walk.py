"""A domain of one's own, as somebody outside the package would write it: nothing is given but what is required."""

from __future__ import annotations

import numpy as np

from evenroll.domains.domain import Domain
from evenroll.domains.environment import RESET, STEP, Environment
from evenroll.engine.pieces import Floats, piece


@piece(RESET)
def reset(params: Floats, state: Floats, u: Floats) -> None:
    state[0] = u[0] - 0.5


@piece(STEP)
def step(params: Floats, state: Floats, action: Floats, u: Floats, reward: Floats) -> int:
    """One action goes left and the other right, the reward is the place, and the walk ends outside of ±1."""
    state[0] += params[0] * (2.0 * action[0] - 1.0)
    reward[0] = state[0]
    return 1 if abs(state[0]) > 1.0 else 0


def environment(rng: np.random.RandomState | None) -> Environment:
    return Environment(reset, step, np.array([0.1]), 1, 1, 2, 1, 1, 0)


def walk() -> Domain:
    return Domain("walk", 0.9, 30, environment)
