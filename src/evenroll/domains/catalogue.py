"""The built-in domains by name.

`get_domain("gridworld")`, or with parameters: `bandit:redraw=1`, `bandit:mean_factor=8,scale_factor=0.5`,
`gridworld:mean_factor=2,noise=1`, `cartpole:actions=3`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np

from evenroll.domains import bandit, cartpole, gridworld
from evenroll.domains.domain import Domain, Truth
from evenroll.domains.environment import Environment
from evenroll.errors import SpecError
from evenroll.policies import Policy, TabularSoftmax
from evenroll.text.specs import closest, parse_parameters

# ---- exact values --------------------------------------------------------------------------------------------


def _bandit_truth(domain: Domain, policy: Policy, env: Environment) -> Truth:
    assert isinstance(policy, TabularSoftmax)
    arms = int(env.params[0])
    means, scales = env.params[1 : 1 + arms], env.params[1 + arms :]
    pi = policy.table[0]
    value = float(pi @ means)
    return Truth(value, 0.0, 1.0, float(pi @ (means**2 + scales**2)) - value**2)


def _gridworld_truth(domain: Domain, policy: Policy, env: Environment) -> Truth:
    """Backward induction over the remaining steps: E[G], E[G²] and E[length]."""
    assert isinstance(policy, TabularSoftmax)
    cells = env.params[1:65].reshape(16, 4).astype(int)
    rewards = env.params[65:].reshape(16, 4)
    noise = float(env.params[0]) ** 2 / 3.0  # variance of a uniform number in ±f
    going = (cells != gridworld.GOAL).astype(float)
    first, second, length = np.zeros(16), np.zeros(16), np.zeros(16)
    for _ in range(domain.horizon):
        ahead, ahead2 = domain.gamma * going * first[cells], domain.gamma**2 * going * second[cells]
        g2 = rewards**2 + noise + 2 * rewards * ahead + ahead2
        first, second, length = ((policy.table * x).sum(axis=1) for x in (rewards + ahead, g2, 1.0 + going * length[cells]))
    return Truth(float(first[0]), 0.0, float(length[0]), float(second[0] - first[0] ** 2))


# ---- the paper's four ----------------------------------------------------------------------------------------


def _bandit_environment(mean_factor: float, scale_factor: float, rng: np.random.RandomState | None) -> Environment:
    arms = bandit.draw_arms(np.random.RandomState(0) if rng is None else rng)
    means, scales = mean_factor * arms[0], scale_factor * arms[1]
    params = np.concatenate([[bandit.ARMS], means, scales])
    return Environment(bandit.reset, bandit.step, params, 1, 1, bandit.ARMS, 1, 0, 1, n_states=1)


def _gridworld_environment(mean_factor: float, noise: float, rng: np.random.RandomState | None) -> Environment:
    params = gridworld.parameters(mean_factor, noise)
    return Environment(gridworld.reset, gridworld.step, params, 1, 1, 4, 1, 0, 1 if noise else 0, n_states=16)


def _cartpole_environment(forces: tuple[float, ...], rng: np.random.RandomState | None) -> Environment:
    return Environment(cartpole.reset, cartpole.step, np.array(forces), 4, 4, len(forces), 1, 4, 0)


def _cartpole_continuous_environment(rng: np.random.RandomState | None) -> Environment:
    return Environment(cartpole.reset, cartpole.step_continuous, np.array([30.0]), 4, 4, None, 1, 4, 0)


def _bandit(redraw: float = 0, mean_factor: float = 1, scale_factor: float = 1) -> Domain:
    environment = functools.partial(_bandit_environment, mean_factor, scale_factor)
    paper = {
        "ros": {"alpha": 1e4},
        "init+ros": {"alpha": 1e4},
        "ros-episode": {"alpha": 1e4},
        "ros-head": {"alpha": 1e4},
        "roa": {"rho": 1.0},
        "bpg": {"batch": 10, "step_size": 0.01},
        "props": {"learning_rate": 0.003, "every": 64, "epochs": 1},  # ours: the paper has none for tables
    }
    return Domain("bandit", 1.0, 1, environment, _bandit_truth, paper, "bandit", redrawn=bool(redraw))


def _gridworld(mean_factor: float = 1, noise: float = 0) -> Domain:
    if noise < 0:
        raise SpecError(f"gridworld: noise must be ≥ 0, not {noise}")

    environment = functools.partial(_gridworld_environment, mean_factor, noise)
    paper = {
        "ros": {"alpha": 1e3},
        "init+ros": {"alpha": 1e4},
        "ros-episode": {"alpha": 100.0},  # ours: with 1e3 it walks in circles until the horizon (MSE 900 × OS at 2⁵)
        "ros-head": {"alpha": 1e3},
        "roa": {"rho": 1.0},
        "bpg": {"batch": 10, "step_size": 0.01},
        "props": {"learning_rate": 0.003, "every": 64, "epochs": 1},  # ours: the paper has none for tables
    }
    return Domain("gridworld", 1.0, 100, environment, _gridworld_truth, paper, "gridworld")


def _cartpole(actions: float = 2) -> Domain:
    forces = {2.0: (-10.0, 10.0), 3.0: (-10.0, 0.0, 10.0)}.get(actions)
    if forces is None:
        raise SpecError(f"cartpole: actions must be 2 or 3, not {actions:g}")

    environment = functools.partial(_cartpole_environment, forces)
    paper = {
        "ros": {"alpha": 10.0},
        "init+ros": {"alpha": 10.0},
        "ros-episode": {"alpha": 10.0},
        "ros-head": {"alpha": 10.0},
        "roa": {"rho": 0.05},
        "bpg": {"batch": 10, "step_size": 5e-5},
    }
    return Domain("cartpole", 0.99, 200, environment, None, paper, "cartpole")


def _cartpole_continuous() -> Domain:
    paper = {
        "ros": {"alpha": 0.1},
        "init+ros": {"alpha": 0.1},
        "ros-episode": {"alpha": 0.1},
        "ros-head": {"alpha": 0.1},
        "roa": {"rho": 0.05},
        "bpg": {"batch": 10, "step_size": 1e-6},
    }
    return Domain("cartpole-continuous", 0.99, 200, _cartpole_continuous_environment, None, paper, "cartpole-continuous")


DOMAINS: dict[str, Callable[..., Domain]] = {
    "bandit": _bandit,
    "gridworld": _gridworld,
    "cartpole": _cartpole,
    "cartpole-continuous": _cartpole_continuous,
}


def get_domain(spec: str | Domain) -> Domain:
    """A built-in domain by name, with parameters after a colon."""
    if isinstance(spec, Domain):
        return spec
    name, _, text = spec.partition(":")
    if name not in DOMAINS:
        raise SpecError(f"unknown domain {name!r}{closest(name, DOMAINS)}; known: {', '.join(DOMAINS)}")
    build = DOMAINS[name]
    known = build.__annotations__.keys() - {"return"}
    values: dict[str, float] = {}
    for key, value in parse_parameters(spec, text).items():
        if key not in known:
            raise SpecError(f"{name}: unknown parameter {key!r}" + (f"; known: {', '.join(sorted(known))}" if known else ""))
        values[key] = 1.0 if value in ("true", "yes") else 0.0 if value in ("false", "no") else _number(name, key, value)
    return dataclasses.replace(build(**values), parameters=values)


def _number(name: str, key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SpecError(f"{name}: {key} must be a number, not {text!r}")
    return value
