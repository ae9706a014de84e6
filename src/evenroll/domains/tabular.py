"""Finite MDPs given by their tables: as a compiled environment, with their exact value, as a domain of one's own."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from evenroll.domains.domain import Domain, Truth
from evenroll.domains.environment import RESET, STEP, Environment
from evenroll.engine import border
from evenroll.engine.pieces import Floats, piece
from evenroll.errors import PolicyError, SpecError
from evenroll.policies import Policy, TabularSoftmax


def tabular_domain(
    name: str, transitions: Any, rewards: Any, start: Any, terminal: Any = None, *, gamma: float = 1.0, horizon: int
) -> Domain:
    """A finite MDP as a domain that knows the exact value of every policy with a table.

    transitions  P(s'|s, a), [states, actions, states]        rewards   r(s, a), [states, actions], without noise
    start        d₀(s), [states]                              terminal  [states], true where entering a state ends

    A trajectory takes at least one step, also if it starts in a terminal state, and at most `horizon`.
    """
    tables = _tables(transitions, rewards, start, terminal)
    environment = functools.partial(_environment_of, tables)
    return Domain(name, gamma, horizon, environment, exact=functools.partial(_exact, tables))


def tabular_environment(transitions: Any, rewards: Any, start: Any, terminal: Any = None) -> Environment:
    """The compiled environment of a finite MDP; the tables are those of `tabular_domain`."""
    return _environment_of(_tables(transitions, rewards, start, terminal))


def backward_induction(
    policy: Policy,
    transitions: np.ndarray,
    rewards: np.ndarray,
    start: np.ndarray,
    terminal: np.ndarray,
    *,
    gamma: float,
    horizon: int,
    noise: float = 0.0,
) -> Truth:
    """The exact value, mean length and variance of the return, by induction over the steps that remain.

    With h steps to go, G = r(s, a) + ε + γ G', where G' is the return of h − 1 steps from s', or 0 if s' is terminal, and
    the noise ε has mean 0 and variance `noise`. As s' and ε are independent given (s, a),

        E[G|s, a]  = r + γ E[G']        E[G²|s, a] = r² + Var[ε] + 2 r γ E[G'] + γ² E[G'²]        E[T|s, a] = 1 + E[T'].
    """
    if not isinstance(policy, TabularSoftmax):
        raise PolicyError(f"the exact value is that of a policy with a table, not of {type(policy).__name__}")
    pi = policy.table
    going = transitions * (1.0 - terminal)  # P(s' and not over|s, a)
    moments = np.zeros((len(start), 3))  # E[G], E[G²] and E[T] of each state
    for _ in range(horizon):
        later = going @ moments
        ahead = gamma * later[:, :, 0]
        first = rewards + ahead
        second = rewards**2 + noise + 2 * rewards * ahead + gamma**2 * later[:, :, 1]
        moments = np.stack([(pi * x).sum(axis=1) for x in (first, second, 1.0 + later[:, :, 2])], axis=1)
    value, square, length = (float(x) for x in start @ moments)
    return Truth(value, 0.0, length, max(0.0, square - value * value))


def _exact(tables: tuple[np.ndarray, ...], domain: Domain, policy: Policy, env: Environment) -> Truth:
    return backward_induction(policy, *tables, gamma=domain.gamma, horizon=domain.horizon)


def _tables(transitions: Any, rewards: Any, start: Any, terminal: Any) -> tuple[np.ndarray, ...]:
    """The four tables as arrays, after a check of their shapes and numbers."""
    given = {"transitions": transitions, "rewards": rewards, "start": start}
    P, R, d0 = (np.array(border.numbers(name, x), dtype=np.float64) for name, x in given.items())
    if R.ndim != 2 or not R.size:
        raise SpecError(f"rewards must be [states, actions], not of shape {R.shape}")
    states, actions = R.shape
    end = np.zeros(states) if terminal is None else np.array(border.numbers("terminal", terminal), dtype=np.float64)
    if P.shape != (states, actions, states) or d0.shape != (states,) or end.shape != (states,):
        raise SpecError(
            f"with rewards of {states} states and {actions} actions, transitions must be [{states}, {actions}, {states}], "
            f"start and terminal [{states}], not {list(P.shape)}, {list(d0.shape)} and {list(end.shape)}"
        )
    if not (np.allclose(P.sum(axis=2), 1.0) and np.isclose(d0.sum(), 1.0) and (P >= 0).all() and (d0 >= 0).all()):
        raise SpecError("transition and start probabilities must be non-negative and sum to 1")
    if not np.isfinite(R).all():
        raise SpecError("rewards must be finite")
    if not np.isin(end, (0.0, 1.0)).all():
        raise SpecError("terminal must be true or false for every state")
    return P, R, d0, end


def _environment_of(tables: tuple[np.ndarray, ...], rng: np.random.RandomState | None = None) -> Environment:
    P, R, d0, end = tables
    states, actions = R.shape
    params = np.concatenate([[states, actions], d0.cumsum(), end, R.ravel(), P.cumsum(axis=2).ravel()])
    return Environment(reset, step, params, 1, 1, actions, 1, 1, 1, n_states=states)


@piece(RESET)
def reset(params: Floats, state: Floats, u: Floats) -> None:
    """params: number of states and actions, cumulated start, terminal, rewards, cumulated transitions."""
    n = int(params[0])
    s = 0
    for i in range(n - 1):
        s += params[2 + i] <= u[0]
    state[0] = s


@piece(STEP)
def step(params: Floats, state: Floats, action: Floats, u: Floats, reward: Floats) -> int:
    n, m = int(params[0]), int(params[1])
    row = int(state[0]) * m + int(action[0])
    at = 2 + 2 * n + n * m + row * n
    s = 0
    for i in range(n - 1):
        s += params[at + i] <= u[0]
    reward[0] = params[2 + 2 * n + row]
    state[0] = s
    return int(params[2 + n + s])
