"""The bandit of the paper: one step, reward of arm a ~ N(mean_a, scale_a).

Parameters: `redraw=1` draws other arms in every trial; `mean_factor` and `scale_factor` multiply means and scales.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from evenroll.domains.domain import Domain, Recipe, Truth
from evenroll.domains.environment import RESET, STEP, Environment
from evenroll.engine.pieces import Floats, piece
from evenroll.engine.scalars import normal_quantile
from evenroll.errors import PolicyError
from evenroll.policies import Policy, TabularSoftmax

NAME = "bandit"
HORIZON = 1
GYMNASIUM_ID = "evenroll/Bandit-v0"
ARMS = 30
PAPER = {
    "ros": {"alpha": 1e4},
    "init+ros": {"alpha": 1e4},
    "ros-episode": {"alpha": 1e4},
    "ros-head": {"alpha": 1e4},
    "roa": {"rho": 1.0},
    "bpg": {"batch": 10, "step_size": 0.01},
    "props": {"learning_rate": 0.003, "every": 64, "epochs": 1},  # ours: the paper has none for tables
}
RECIPE = Recipe(episodes=5000, learning_rate=1e-2)  # episodes: the paper's


def domain(redraw: float = 0, mean_factor: float = 1, scale_factor: float = 1) -> Domain:
    """The bandit with its arms fixed, or drawn anew in every trial."""
    make = functools.partial(environment, mean_factor, scale_factor)
    plain = Domain(NAME, 1.0, HORIZON, make, exact, PAPER, NAME, RECIPE, GYMNASIUM_ID, greedy=best_arm)
    if not redraw:
        return plain
    average = Truth(
        0.5 * mean_factor, 0.0, 1.0, math.nan
    )  # whatever the policy, as every mean is uniform in [0, mean_factor]
    return dataclasses.replace(plain, redrawn=True, average=average)


def environment(mean_factor: float, scale_factor: float, rng: np.random.RandomState | None) -> Environment:
    """params: number of arms, means, scales. Without `rng` the arms are those of the published runs, seed 0."""
    means, scales = draw_arms(np.random.RandomState(0) if rng is None else rng)
    params = np.concatenate([[ARMS], mean_factor * means, scale_factor * scales])
    return Environment(reset, step, params, 1, 1, ARMS, 1, 0, 1, n_states=1)


def draw_arms(rng: np.random.RandomState) -> np.ndarray:
    """Means and scales, each uniform in [0, 1]: an array [2, arms]."""
    return np.stack([rng.uniform(0, 1, ARMS), rng.uniform(0, 1, ARMS)])


def best_arm(env: Environment) -> np.ndarray:
    """The arm with the largest mean."""
    return np.array([np.argmax(env.params[1 : 1 + ARMS])])


def exact(domain: Domain, policy: Policy, env: Environment) -> Truth:
    """v = Σ π(a) mean_a, and Var = Σ π(a) (mean_a² + scale_a²) − v²."""
    if not isinstance(policy, TabularSoftmax):
        raise PolicyError(f"the exact value is that of a policy with a table, not of {type(policy).__name__}")
    means, scales = env.params[1 : 1 + ARMS], env.params[1 + ARMS :]
    pi = policy.table[0]
    value = float(pi @ means)
    return Truth(value, 0.0, 1.0, float(pi @ (means**2 + scales**2)) - value**2)


@piece(RESET)
def reset(params: Floats, state: Floats, u: Floats) -> None:
    state[0] = 0.0


@piece(STEP)
def step(params: Floats, state: Floats, action: Floats, u: Floats, reward: Floats) -> int:
    arms = int(params[0])
    a = int(action[0])
    reward[0] = params[1 + a] + params[1 + arms + a] * normal_quantile(u[0])
    return 1
