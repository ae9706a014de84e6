"""The part of each return that is luck with the start state, learnt from the episodes and averaged over further resets.

A simulator's reset costs no step, so the distribution of starts can be known far better than n episodes show it. Let
B(s₀) estimate what the start is worth. Then

    G_i = v + [B(s₀ᵢ) − mean of B over all starts that are known] + …

and the bracket has mean 0 for any B that was learnt without episode i, whether it is right or not. So B may be chosen
freely: by what it explains. It is linear in features of s₀. Which features, and how much they are held back (the ridge), is
chosen by cross-validation among the episodes that B is learnt from; where nothing predicts other episodes, B is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.estimators.step_features import principal

FOLDS = 10  # parts of the cross-validation; a choice
RIDGES = (1e-3, 1e-1)  # relative to the mean squared (standardised) feature
MOST_FEATURES = 3  # features of a start for every ten episodes, at most: three episodes must stand behind each
MOST_OF_OBSERVATION = 32  # principal components of a long observation
# Leading products are chosen if they leave at most this share of what the best of the others leaves: where starts explain
# little, more sets to choose from are more noise (Reacher-v5, stochastic: 0.30 without them, 0.34 with 1, 0.33 with 0.9).
CLEARLY = 0.7
LEADING = (2, 3, 4)  # principal directions of longer observations whose products are tried by themselves; a choice
MOST_STATES = 64  # a single whole number with up to this many values is taken for the number of a state; a choice


@dataclass(frozen=True)
class LearntStart:
    """B of every episode's start minus its mean over all starts that are known, [n], and the variance of that mean."""

    part: np.ndarray
    noise: float


class Starts:
    """What the episodes and the further resets began with: sets of features (own [n, m], resets [M, m]), the smallest first.

    The features are standardised.
    """

    def __init__(self, own: np.ndarray, more: np.ndarray, critic: tuple[np.ndarray, np.ndarray] | None = None) -> None:
        """own, more [n, d] and [M, d]: observations; critic: the values that the policy's own critic gives to them."""
        self.resets = len(more)
        self.sets = [_standardised(x, y) for x, y in _features(own, more, critic)]
        self.sets = [(x, y) for x, y in self.sets if x.shape[1]]
        self.leading = [_standardised(x, y) for x, y in _with_leading_products(own, more)] if self.sets else []

    def learn(self, values: np.ndarray, among: np.ndarray) -> LearntStart | None:
        """B, learnt from the episodes of the mask `among`; None where no features predict the values of other episodes."""
        n, y = int(among.sum()), values[among]
        best = None
        least = float(np.square(y - y.mean()).sum()) * (n / (n - 1)) ** 2 if n > 1 else 0.0  # by the mean of all others
        for share, sets in ((1.0, self.sets), (CLEARLY, self.leading)):
            enough = share * least
            for own, more in sets:
                if own.shape[1] > max(1, MOST_FEATURES * n // 10):
                    continue
                for ridge, left in zip(RIDGES, _left(own[among], y, RIDGES), strict=True):
                    if left < min(enough, least):
                        best, least = (own, more, ridge), left
        if best is None:
            return None
        own, more, ridge = best
        weights = _weights(own[among], y, ridge)
        worth, others = own @ weights, more @ weights
        known = len(worth) + len(others)  # the episodes' own starts show what starts there are as well
        return LearntStart(worth - (worth.sum() + others.sum()) / known, float(others.var(ddof=1)) / known)


def starts_of(rollouts: Rollouts) -> Starts | None:
    """The starts of some rollouts; None where there were no further resets, or their observations were not kept."""
    more, kept = rollouts.resets, rollouts.observations
    if more is None or len(more) < 2 or kept is None or rollouts.episodes == 0:
        return None
    starts = Starts(rollouts.start_observations(), more, rollouts.critic)
    return starts if starts.sets else None


def _features(
    own: np.ndarray, more: np.ndarray, critic: tuple[np.ndarray, np.ndarray] | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sets of features of both: states, or the observation and its products; each also with the critic's values."""
    n, both = len(own), np.concatenate([own, more])
    states = np.unique(both) if both.shape[1] == 1 else np.empty(0)
    if 0 < len(states) <= MOST_STATES and np.array_equal(states, np.round(states)):
        known = np.unique(own)
        sets = [((own == known).astype(np.float64), (more == known).astype(np.float64))] if len(states) > 1 else []
    else:
        rows = _centred(own, more)
        sets = [(x[:n], x[n:]) for x in (rows, np.append(rows, _products(rows), axis=1))]
    if critic is not None:
        a, b = (values[:, None] for values in critic)
        sets = [(a, b), *sets, *((np.append(x, a, axis=1), np.append(y, b, axis=1)) for x, y in sets)]
    return sets


def _with_leading_products(own: np.ndarray, more: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Long observations with the products of what varies most in them: few episodes do not carry all products."""
    if own.shape[1] <= max(LEADING):
        return []
    rows = _centred(own, more)
    axes, n = _leading(rows), len(own)
    whole = [np.append(rows, _products(rows @ axes[:, :count]), axis=1) for count in LEADING]
    return [(x[:n], x[n:]) for x in whole]


def _centred(own: np.ndarray, more: np.ndarray) -> np.ndarray:
    """The observations of both, [n + M, …], or the principal components of long ones, around the mean of the resets."""
    rows = principal(np.concatenate([own, more]).astype(np.float32), MOST_OF_OBSERVATION).astype(np.float64)
    return np.asarray(rows - rows[len(own) :].mean(axis=0))


def _products(rows: np.ndarray) -> np.ndarray:
    """All products of two entries of each row."""
    i, j = np.triu_indices(rows.shape[1])
    return np.asarray(rows[:, i] * rows[:, j])


def _leading(rows: np.ndarray) -> np.ndarray:
    """The directions along which rows, in units of their spread, vary most, [width, width], the first ones first."""
    spread = rows.std(axis=0)
    units = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-9 * spread.max(initial=0.0))
    scaled = rows * units
    return np.asarray(units[:, None] * np.linalg.eigh(scaled.T @ scaled)[1][:, ::-1])


def _standardised(own: np.ndarray, more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both in units of the spread of all, without what does not vary."""
    spread = np.concatenate([own, more]).std(axis=0)
    moving = spread > 1e-9 * max(float(spread.max(initial=0.0)), 1e-300)
    centre = more[:, moving].mean(axis=0)
    return (own[:, moving] - centre) / spread[moving], (more[:, moving] - centre) / spread[moving]


def _weights(x: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """Ridge regression with an intercept, which is left out."""
    x = x - x.mean(axis=0)
    H = x.T @ x
    H[np.diag_indices_from(H)] += ridge * len(x)
    return np.asarray(np.linalg.solve(H, x.T @ (y - y.mean())))


def _left(x: np.ndarray, y: np.ndarray, ridges: Sequence[float]) -> list[float]:
    """For each ridge the sum of squares that the regression leaves of values it was not learnt from.

    All folds are solved at once: what the others teach is the sum of all products less those of the fold.
    """
    n, m = x.shape
    folds = min(FOLDS, n)
    if folds == 1:
        return [math.inf for _ in ridges]
    y = y - y.mean()  # returns may lie far from 0
    rows = np.concatenate([np.ones((n, 1)), x, y[:, None]], axis=1)
    products = np.stack([rows[k::folds].T @ rows[k::folds] for k in range(folds)])
    taught = products.sum(axis=0) - products
    count = taught[:, :1, :1]
    mean = taught[:, :1, 1:] / count
    spread = taught[:, 1:, 1:] - count * mean.transpose(0, 2, 1) * mean
    fold = np.arange(n) % folds
    away = rows[:, 1:] - mean[fold, 0]
    result = []
    for ridge in ridges:
        weights = np.linalg.solve(spread[:, :m, :m] + ridge * count * np.eye(m), spread[:, :m, m:])[:, :, 0]
        result.append(float(np.square(away[:, m] - np.einsum("ij,ij->i", away[:, :m], weights[fold])).sum()))
    return result
