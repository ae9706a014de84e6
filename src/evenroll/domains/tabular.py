"""Any finite MDP as a compiled environment: for exact tests, for theory, for a domain of your own."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenroll.domains.environment import RESET, STEP, Environment
from evenroll.engine.pieces import Floats, piece
from evenroll.errors import SpecError


def tabular_environment(transitions: Any, rewards: Any, start: Any, terminal: Any = None) -> Environment:
    """P [states, actions, states], R [states, actions], d₀ [states]; entering a state marked terminal ends."""
    P, R, d0 = (np.asarray(x, dtype=np.float64) for x in (transitions, rewards, start))
    states, actions = R.shape
    end = np.zeros(states) if terminal is None else np.asarray(terminal, dtype=np.float64)
    if P.shape != (states, actions, states) or d0.shape != (states,) or end.shape != (states,):
        raise SpecError("P must be [states, actions, states], R [states, actions], start and terminal [states]")
    if not (np.allclose(P.sum(axis=2), 1.0) and np.isclose(d0.sum(), 1.0) and (P >= 0).all() and (d0 >= 0).all()):
        raise SpecError("transition and start probabilities must be non-negative and sum to 1")
    params = np.concatenate([[states, actions], d0.cumsum(), end, R.ravel(), P.cumsum(axis=2).ravel()])
    return Environment(reset, step, params, 1, 1, actions, 1, 1, 1, n_states=states)


@piece(RESET)
def reset(params: Floats, state: Floats, u: Floats) -> None:
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
