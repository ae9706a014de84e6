"""The 4×4 GridWorld of the paper. The reward is that of the cell entered; bumping into a wall costs −1.

States are cells, row-major; actions are up, down, left, right. Start (0,0), goal (3,3).
"""

from __future__ import annotations

import numpy as np

from evenroll.domains.environment import RESET, STEP
from evenroll.engine.pieces import Floats, piece

SIZE = 4
GOAL = 15
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
# Rewards: entering goal +10, (1,1) −10, (1,3) +1, any other cell −1 (method.md §4).
CELL_REWARDS = np.full(16, -1.0)
CELL_REWARDS[[GOAL, 5, 7]] = 10.0, -10.0, 1.0


def tables() -> tuple[np.ndarray, np.ndarray]:
    """Deterministic model: next cell [16, 4] and mean reward [16, 4]."""
    cells = np.zeros((16, 4), dtype=np.int64)
    rewards = np.zeros((16, 4))
    for cell in range(16):
        for a, (down, right) in enumerate(MOVES):
            row, column = cell // SIZE + down, cell % SIZE + right
            inside = 0 <= row < SIZE and 0 <= column < SIZE
            cells[cell, a] = row * SIZE + column if inside else cell
            rewards[cell, a] = CELL_REWARDS[cells[cell, a]] if inside else -1.0
    return cells, rewards


def parameters(mean_factor: float, noise: float) -> np.ndarray:
    """params: noise half-width f, next cell [64], mean reward [64]."""
    cells, rewards = tables()
    return np.concatenate([[noise], cells.ravel(), mean_factor * rewards.ravel()])


@piece(RESET)
def reset(params: Floats, state: Floats, u: Floats) -> None:
    state[0] = 0.0


@piece(STEP)
def step(params: Floats, state: Floats, action: Floats, u: Floats, reward: Floats) -> int:
    at = int(state[0]) * 4 + int(action[0])
    cell = params[1 + at]
    reward[0] = params[65 + at] + params[0] * (2.0 * u[0] - 1.0)
    state[0] = cell
    return 1 if cell == 15.0 else 0
