"""The part of each return that is luck with the start state, learnt from the episodes and averaged over further resets.

A simulator's reset costs no step, so the distribution of starts can be known far better than n episodes show it. Let
B(s₀) estimate what the start is worth. Then

    G_i = v + [B(s₀ᵢ) − mean of B over many resets] + …

and the bracket has mean 0 for any B, whether it is right or not. So B may be chosen freely: by what it explains. It is
linear in features of s₀, learnt from other episodes than the one it is used on (cross-fitting), and from returns that the
luck of the actions was taken out of. Which features it uses depends on what n episodes can carry; the data decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenroll.estimators.step_features import principal

FOLDS = 10
RIDGES = (1e-3, 1e-1)  # relative to the mean squared (standardised) feature
MOST_FEATURES = 3  # features of a start for every ten episodes, at most: three episodes must stand behind each
MOST_OF_OBSERVATION = 32  # principal components of a long observation


@dataclass(frozen=True)
class StartPart:
    """B(s₀) − mean of B over the resets, of every episode.

    apart  [n], with a B that was learnt from the other folds than the episode's own
    mean   the mean of `apart`
    noise  the variance of the mean over the resets, which are many but not all
    """

    apart: np.ndarray
    noise: float
    unseen: float = 0.0

    @property
    def mean(self) -> float:
        return float(self.apart.mean())


def start_part(
    values: np.ndarray,
    own: np.ndarray,
    more: np.ndarray,
    critic: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    states: bool = False,
) -> StartPart | None:
    """The start part of values [n], or None where no features of the start predict the values of other episodes.

    own, more  [n, d] and [M, d]: the observations that the episodes and the further resets began with
    critic     the values [n] and [M] that the policy's own critic gives to them, if it has one
    states     whether an observation is the number of a state
    """
    best: StartPart | None = None
    least = float(np.square(values - values.mean()).sum()) * (1.0 - 1.0 / len(values)) ** -2  # of the mean of all others
    for features in _candidates(len(values), own, more, critic, states):
        for ridge in RIDGES:
            part, left = _cross_fitted(values, *features, ridge)
            if left < least:
                best, least = part, left
    return best


def _candidates(
    n: int, own: np.ndarray, more: np.ndarray, critic: tuple[np.ndarray, np.ndarray] | None, states: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sets of features (of the episodes' starts, of the resets' starts), the smallest first, each with at most 3n/10."""
    if states:
        known = np.unique(own[:, 0])
        sets = [((own == known).astype(np.float64), (more == known).astype(np.float64))] if len(known) > 1 else []
    else:
        rows = principal(np.concatenate([own, more]).astype(np.float32), MOST_OF_OBSERVATION).astype(np.float64)
        x, y = rows[:n], rows[n:]
        i, j = np.triu_indices(x.shape[1])
        sets = [(x, y), (np.append(x, x[:, i] * x[:, j], axis=1), np.append(y, y[:, i] * y[:, j], axis=1))]
    if critic is not None:
        a, b = (values[:, None] for values in critic)
        sets = [(a, b), *((np.append(x, a, axis=1), np.append(y, b, axis=1)) for x, y in sets)]
    result = []
    for x, y in sets:
        spread = np.concatenate([x, y]).std(axis=0)
        moving = spread > 1e-9 * max(float(spread.max(initial=0.0)), 1e-300)
        if moving.any() and moving.sum() <= max(1, MOST_FEATURES * n // 10):
            centre = y[:, moving].mean(axis=0)
            result.append(((x[:, moving] - centre) / spread[moving], (y[:, moving] - centre) / spread[moving]))
    return result


def _cross_fitted(values: np.ndarray, own: np.ndarray, more: np.ndarray, ridge: float) -> tuple[StartPart, float]:
    """The part, and the sum of squares that B leaves of values it was not learnt from.

    The features are centred on the resets, so that the mean of B over them is the constant, for every fold.
    """
    n = len(values)
    folds = min(FOLDS, n)
    apart, left, weights = np.empty(n), 0.0, np.zeros(own.shape[1])
    for k in range(folds):
        mine = np.arange(n) % folds == k
        x, y = own[~mine], values[~mine]
        mean = x.mean(axis=0)
        H = (x - mean).T @ (x - mean)
        H[np.diag_indices_from(H)] += ridge * len(x)
        w = np.linalg.solve(H, (x - mean).T @ (y - y.mean()))
        apart[mine] = own[mine] @ w
        left += float(np.square(values[mine] - y.mean() - (own[mine] - mean) @ w).sum())
        weights += w / folds
    noise = float((more @ weights).var(ddof=1)) / len(more) if len(more) > 1 else math.inf
    return StartPart(apart, noise), left
