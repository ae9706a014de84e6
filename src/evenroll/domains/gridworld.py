"""The 4×4 GridWorld of the paper. The reward is that of the cell entered; bumping into a wall costs −1.

States are cells, row-major; actions are up, down, left, right. Start (0,0), goal (3,3).
Parameters: `mean_factor` multiplies all rewards; `noise=f` adds a uniform number in ±f to each.
"""

from __future__ import annotations

import functools

import numpy as np

from evenroll.domains.domain import Domain, Recipe, Truth
from evenroll.domains.environment import RESET, STEP, Environment
from evenroll.domains.tabular import backward_induction
from evenroll.engine.pieces import Floats, piece
from evenroll.errors import SpecError
from evenroll.policies import Policy

NAME = "gridworld"
HORIZON = 100
GYMNASIUM_ID = "evenroll/GridWorld-v0"
SIZE = 4
GOAL = 15
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
# Rewards: entering goal +10, (1,1) −10, (1,3) +1, any other cell −1 (method.md §4).
CELL_REWARDS = np.full(16, -1.0)
CELL_REWARDS[[GOAL, 5, 7]] = 10.0, -10.0, 1.0
PAPER = {
    "ros": {"alpha": 1e3},
    "init+ros": {"alpha": 1e4},
    "ros-episode": {"alpha": 100.0},  # ours: with 1e3 it walks in circles until the horizon (MSE 900 × OS at 2⁵)
    "ros-head": {"alpha": 1e3},
    "roa": {"rho": 1.0},
    "bpg": {"batch": 10, "step_size": 0.01},
    "props": {"learning_rate": 0.003, "every": 64, "epochs": 1},  # ours: the paper has none for tables
}
RECIPE = Recipe(episodes=5000, learning_rate=1e-2)  # episodes: the paper's; T̄ comes out near its 7.4


def domain(mean_factor: float = 1, noise: float = 0) -> Domain:
    """The GridWorld, its rewards multiplied by `mean_factor` and blurred by uniform noise in ±`noise`."""
    if noise < 0:
        raise SpecError(f"{NAME}: noise must be ≥ 0, not {noise}")
    make = functools.partial(environment, mean_factor, noise)
    return Domain(NAME, 1.0, HORIZON, make, exact, PAPER, NAME, RECIPE, GYMNASIUM_ID)


def environment(mean_factor: float, noise: float, rng: np.random.RandomState | None) -> Environment:
    """params: noise half-width f, next cell [64], mean reward [64]."""
    cells, rewards = tables()
    params = np.concatenate([[noise], cells.ravel(), mean_factor * rewards.ravel()])
    return Environment(reset, step, params, 1, 1, 4, 1, 0, 1 if noise else 0, n_states=16)


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


def exact(domain: Domain, policy: Policy, env: Environment) -> Truth:
    """Backward induction; the noise is uniform in ±f, so its variance is f²/3."""
    each = np.eye(16)
    transitions = each[env.params[1:65].astype(int)].reshape(16, 4, 16)
    rewards, noise = env.params[65:].reshape(16, 4), float(env.params[0]) ** 2 / 3.0
    return backward_induction(
        policy, transitions, rewards, each[0], each[GOAL], gamma=domain.gamma, horizon=domain.horizon, noise=noise
    )


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
