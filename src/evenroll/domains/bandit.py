"""The bandit of the paper: one step, reward of arm a ~ N(mean_a, scale_a)."""

from __future__ import annotations

import numpy as np

from evenroll.domains.environment import RESET, STEP
from evenroll.engine.pieces import Floats, piece
from evenroll.engine.scalars import normal_quantile

ARMS = 30


def draw_arms(rng: np.random.RandomState) -> np.ndarray:
    """Means and scales, each uniform in [0, 1]: an array [2, arms]."""
    return np.stack([rng.uniform(0, 1, ARMS), rng.uniform(0, 1, ARMS)])


@piece(RESET)
def reset(params: Floats, state: Floats, u: Floats) -> None:
    state[0] = 0.0


@piece(STEP)
def step(params: Floats, state: Floats, action: Floats, u: Floats, reward: Floats) -> int:
    """params: number of arms, means, scales."""
    arms = int(params[0])
    a = int(action[0])
    reward[0] = params[1 + a] + params[1 + arms + a] * normal_quantile(u[0])
    return 1
