"""The action part of a tabular policy: a model of the data is solved for the worth of every action."""

from __future__ import annotations

import numpy as np

from evenroll.estimators.action_part import ActionPart, Steps, median_square, without
from evenroll.policies import TabularSoftmax


def table_action_part(steps: Steps, policy: TabularSoftmax) -> ActionPart:
    """Â = Q̂ − V̂ of the maximum-likelihood model of the other folds.

    Where the domain is deterministic, Â is exact as soon as every action has been seen.
    """
    pi = policy.table
    n_states, n_actions = pi.shape
    size = n_states * n_actions
    cells = steps.states * n_actions + steps.choices
    last = np.zeros(len(cells), dtype=bool)
    last[steps.ends - 1] = True
    after = np.append(steps.states[1:], 0)
    known = ~last | steps.terminated[steps.episode]  # where a time limit cut, the next state was not recorded
    horizon = None if steps.terminated.all() else int(steps.lengths.max())
    moves, gains, visits = [], [], []
    for k in range(steps.folds):
        mine = (steps.fold == k) & known
        inner = mine & ~last
        moves.append(np.bincount(cells[inner] * n_states + after[inner], minlength=size * n_states).astype(float))
        gains.append(np.bincount(cells[mine], steps.rewards[mine], minlength=size))
        visits.append(np.bincount(cells[mine], minlength=size).astype(float))
    parts = np.array([np.concatenate(x) for x in zip(moves, gains, visits, strict=True)])

    def gained(rest: np.ndarray) -> np.ndarray:
        M, R, N = np.split(rest, [size * n_states, size * n_states + size])
        advantage = advantages_of_model(M.reshape(n_states, n_actions, n_states), R.reshape(n_states, n_actions),
                                 N.reshape(n_states, n_actions), pi, steps.gamma, horizon)  # fmt: skip
        return steps.per_episode(steps.discount * advantage.ravel()[cells])

    together = gained(parts.sum(axis=0))
    C = together.copy()
    for k in range(steps.folds if steps.folds > 1 else 0):
        C[k :: steps.folds] = gained(without(parts, k))[k :: steps.folds]
    counts = np.bincount(cells, minlength=size).reshape(n_states, n_actions)
    expected = counts.sum(axis=1, keepdims=True) * pi
    lacking = (np.array(visits) > 0).sum(axis=0).reshape(n_states, n_actions) < min(2, steps.folds)
    usual = (expected >= 1.0) & (pi < 1.0)
    loose = median_square((counts - expected)[usual] ** 2 / (expected * (1.0 - pi))[usual])
    return ActionPart(C, float(together.mean()), loose, float(expected[lacking].sum()) / steps.n)


def advantages_of_model(
    moves: np.ndarray, gains: np.ndarray, visits: np.ndarray, pi: np.ndarray, gamma: float, horizon: int | None
) -> np.ndarray:
    """Advantages [states, actions] of the model: V = r + γ P V is solved, or swept `horizon` times if a limit cut episodes.

    If every episode ended by itself, every state of the model leads to an end, and the system has one solution.
    An action that was never seen counts as average.

    moves   [states, actions, states]: how often each state followed       gains  [states, actions]: sums of rewards
    visits  [states, actions]: how often the action was taken with a known outcome
    """
    seen = visits > 0
    count = np.maximum(visits, 1.0)
    reward, step = gains / count, gamma * moves / count[:, :, None]
    weight = np.where(seen, pi, 0.0)
    total = weight.sum(axis=1, keepdims=True)
    weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    r, P = (weight * reward).sum(axis=1), np.einsum("sa,sat->st", weight, step)
    V = np.zeros(len(pi))
    if horizon is None:
        V = np.linalg.solve(np.eye(len(pi)) - P, r)
    for _ in range(horizon or 0):
        V = r + P @ V
    Q = np.where(seen, reward + step @ V, (r + P @ V)[:, None])
    return np.asarray(Q - (pi * Q).sum(axis=1, keepdims=True))
