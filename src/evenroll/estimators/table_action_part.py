"""The action part of a tabular policy: a model of the data is solved for the worth of every action.

A large table is mostly empty: of states · actions · states transitions the data knows at most one a step. So the model is
counted and kept as a list of the transitions that were seen. Where all transitions that there could be are at most DENSE,
the model is solved as full matrices, and else as sparse ones, whose time and memory follow the number of those seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.errors import DataError
from evenroll.estimators.action_part import ActionPart, Steps, median_square
from evenroll.policies import TabularSoftmax

SWEEPS, SETTLED = 3000, 1e-14  # of a sparse model: the most sweeps, and the relative change that no longer counts
DENSE = 1_000_000  # states · actions · states of a model with full matrices: 8 MB, and 20 ms to solve


@dataclass(frozen=True)
class Counts:
    """What the data, or a part of it, knows of the domain.

    moves   how often the state `after[i]` followed on the cell `before[i]`, for every pair that occurs in the whole data
    gains   [cells] sums of rewards
    visits  [cells] how often the action was taken with a known outcome
    """

    moves: np.ndarray
    gains: np.ndarray
    visits: np.ndarray

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.moves + other.moves, self.gains + other.gains, self.visits + other.visits)


def table_action_part(steps: Steps, policy: TabularSoftmax) -> ActionPart:
    """Â = Q̂ − V̂ of the maximum-likelihood model of the other folds.

    Where the domain is deterministic, Â is exact as soon as every action has been seen.
    """
    if steps.observations.shape[1] != 1:
        raise DataError("these rollouts were collected without the states")
    pi = policy.table
    n_states, n_actions = pi.shape
    size = n_states * n_actions
    cells = steps.states * n_actions + steps.choices
    last = np.zeros(len(cells), dtype=bool)
    last[steps.ends - 1] = True
    following = np.append(steps.states[1:], 0)
    known = ~last | steps.terminated[steps.episode]  # where a time limit cut, the next state was not recorded
    horizon = None if steps.terminated.all() else int(steps.lengths.max())
    pairs, place = np.unique((cells * n_states + following)[~last], return_inverse=True)
    of_step = np.zeros(len(cells), dtype=np.int64)
    of_step[~last] = place
    before, after = pairs // n_states, pairs % n_states
    parts = []
    for k in range(steps.folds):
        mine = (steps.fold == k) & known
        moves = np.bincount(of_step[mine & ~last], minlength=len(pairs)).astype(float)
        gains = np.bincount(cells[mine], steps.rewards[mine], minlength=size)
        parts.append(Counts(moves, gains, np.bincount(cells[mine], minlength=size).astype(float)))

    def gained(counts: Counts) -> np.ndarray:
        advantage = advantages_of_model(counts, before, after, pi, steps.gamma, horizon)
        return steps.per_episode(steps.discount * advantage.ravel()[cells])

    together = gained(_sum(parts))
    C = together.copy()
    for k in range(steps.folds if steps.folds > 1 else 0):
        C[k :: steps.folds] = gained(_sum([part for i, part in enumerate(parts) if i != k]))[k :: steps.folds]
    counts = np.bincount(cells, minlength=size).reshape(n_states, n_actions)
    expected = counts.sum(axis=1, keepdims=True) * pi
    seen_in = sum((part.visits > 0).astype(int) for part in parts)
    lacking = np.reshape(seen_in, (n_states, n_actions)) < min(2, steps.folds)
    usual = (expected >= 1.0) & (pi < 1.0)
    loose = median_square((counts - expected)[usual] ** 2 / (expected * (1.0 - pi))[usual])
    unseen = float(expected[lacking].sum()) / steps.n
    return ActionPart(C[:, None], lambda way: float(together.mean()), loose, unseen, inside=lambda way: together)


def _sum(parts: list[Counts]) -> Counts:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def advantages_of_model(
    counts: Counts, before: np.ndarray, after: np.ndarray, pi: np.ndarray, gamma: float, horizon: int | None
) -> np.ndarray:
    """Advantages [states, actions] of the model: V = r + γ P V is solved, or swept `horizon` times if a limit cut episodes.

    If every episode ended by itself, every state of the model leads to an end, and the system has one solution.
    An action that was never seen counts as average.

    before, after  the cell and the next state of each entry of `counts.moves`
    """
    n_states = len(pi)
    visits = counts.visits.reshape(pi.shape)
    seen, count = visits > 0, np.maximum(visits, 1.0)
    reward = counts.gains.reshape(pi.shape) / count
    weight = np.where(seen, pi, 0.0)
    total = weight.sum(axis=1, keepdims=True)
    weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    r = (weight * reward).sum(axis=1)
    step, P = _transitions(counts.moves, before, after, count, weight, gamma)
    V = np.zeros(n_states)
    if horizon is None and isinstance(P, np.ndarray):
        V = np.linalg.solve(np.eye(n_states) - P, r)
    elif horizon is None:
        V = _solved(P, r)
    for _ in range(horizon or 0):
        V = r + P @ V
    ahead = np.reshape(step @ V, pi.shape)
    Q = np.where(seen, reward + ahead, (r + P @ V)[:, None])
    return np.asarray(Q - (pi * Q).sum(axis=1, keepdims=True))


def _solved(P: Any, r: np.ndarray) -> np.ndarray:
    """V = r + P V for a sparse P: by sweeps, which settle after some ten mean lengths of an episode, or else by elimination.

    Elimination fills the gaps of the matrix, and is slow where every state can follow on every other.
    """
    V = r
    for _ in range(SWEEPS):
        before, V = V, r + P @ V
        if np.abs(V - before).max(initial=0.0) <= SETTLED * np.abs(V).max(initial=0.0):
            return V
    from scipy import sparse
    from scipy.sparse.linalg import splu

    return np.asarray(splu(sparse.csc_array(sparse.eye_array(len(r)) - P)).solve(r))


def _transitions(
    moves: np.ndarray, before: np.ndarray, after: np.ndarray, count: np.ndarray, weight: np.ndarray, gamma: float
) -> tuple[Any, Any]:
    """(γ p̂(s'|s, a) by cell and next state, γ p̂(s'|s) under the weights of the actions), as full or as sparse matrices."""
    n_states, n_actions = count.shape
    if count.size * n_states <= DENSE:
        table = np.zeros((count.size, n_states))
        table[before, after] = moves
        step = gamma * table.reshape(n_states, n_actions, n_states) / count[:, :, None]
        return step, np.einsum("sa,sat->st", weight, step)
    shares = gamma * moves / count.ravel()[before]
    from scipy import sparse  # for large tables only

    by_cell = sparse.csr_array((shares, (before, after)), shape=(count.size, n_states))
    by_state = (weight.ravel()[before] * shares, (before // n_actions, after))
    return by_cell, sparse.csr_array(by_state, shape=(n_states, n_states))
