"""The action part of a network: generalised advantages, regressed on scores times features of the state.

The advantage of an action is what comes after it, less what was to be expected. What comes after it is noisy: it carries the
luck of all later actions. Generalised advantages (Schulman et al. 2016) trade this noise for trust in a value function V̂,

    A_t = Σ_l (γλ)ˡ δ_{t+l},     δ_t = r_t + γ V̂(s_{t+1}) − V̂(s_t),

from λ = 1, what the episode still earned less V̂, to λ = 0, a single δ. Whatever λ is, any weights of the scores make a valid
correction; a bad choice only explains less. So C is found for several λ and ridges, and `corrections.py` chooses among them
by what they explain.

Â is linear in the scores times the policy's *own* features, the last hidden ones: these are what samplers balance. V̂ knows
more of the state. Further features in Â would explain a little more of each return, but their luck is not balanced, and
with tens of episodes the noise of their weights costs the mean more than they are worth. So they enter as a part of their
own, the further part, once there are PLENTY of steps to learn them from (docs/experiments-intervals.md).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import float32, int64, void

from evenroll.engine.addresses import Addresses, pointers
from evenroll.engine.pace import patiently
from evenroll.engine.pieces import compiled
from evenroll.errors import DataError
from evenroll.estimators.action_part import ActionPart, Steps, median_square, without
from evenroll.estimators.step_features import StepFeatures, hidden_and_scores
from evenroll.policies import MLP, External

LAMBDAS = (1.0, 0.95, 0.8, 0.5)
# Ridges of Â, relative to the mean squared (standardised) feature. V̂ has one of its own, from which little depends.
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
RIDGE_OF_VALUE = 1e-2
PASS = 0.9  # λ of the targets that V̂ is fitted to a second time
FIRM = 1e-2  # directions with less than this share of the mean power are not asked how unbalanced they are
PLENTY = 256  # steps for each feature; docs/experiments-intervals.md
ENOUGH = 100_000  # steps to learn from; a choice
CHUNK = 8192  # steps that are looked at at once


def network_action_part(steps: Steps, policy: MLP | External) -> list[ActionPart]:
    """Weighted least squares, step by step: γᵗ A_t regressed on γᵗ · score ⊗ ψ(s_t).

    The weights of a discrete action come from the steps that took it. The scores of a Gaussian are orthonormal, so that all
    their weights share one matrix. Single precision is enough: any weights give a valid correction, and the noise in them
    is far above 1e-6 anyway. Of very many steps the first ENOUGH teach; episodes behind them have had no part in Â at all.
    """
    taught = int(np.searchsorted(steps.ends, ENOUGH, side="right"))  # episodes that Â is learnt from
    part = steps if taught == steps.n or taught < steps.folds else _first(steps, taught)
    hidden, scores = hidden_and_scores(policy, part)
    features = StepFeatures(part, hidden)
    psi = features.of(hidden, part.observations, part.discount)
    _check_finite(psi, scores)
    fit = _Fit(part, psi, features.own, scores, policy.n_actions)
    widths = [features.own, psi.shape[1]] if len(psi) > PLENTY * psi.shape[1] else [features.own]
    learnt = []  # for each width of Â: C of the episodes that taught, and the weights that all of them teach
    for width in widths:
        fit.use(width)
        learnt.append((fit.apart(), fit.weights(None) if part.n < steps.n else np.empty(0)))
    fit.use(features.own)
    S = fit.S
    aparts = [apart for apart, _ in learnt]
    if part.n < steps.n:
        more, others = _behind(steps, policy, features, part, [weights for _, weights in learnt])
        S = S + more
        aparts = [np.concatenate([apart, other]) for apart, other in zip(aparts, others, strict=True)]

    def together(way: int) -> float:
        weights = fit.weights(None, way // len(RIDGES), way % len(RIDGES))[0, 0]
        return float((weights * S.T).sum()) / steps.n

    def inside(way: int) -> np.ndarray:
        weights = fit.weights(None, way // len(RIDGES), way % len(RIDGES))[0, 0]
        return fit.of_episodes(weights)

    firm = tuple(way - way % len(RIDGES) + len(RIDGES) - 1 for way in range(aparts[0].shape[1]))
    loose = fit.looseness(S, len(steps.t) / len(part.t))
    parts = [ActionPart(aparts[0], together, loose, 0.0, firm, inside if part.n == steps.n else None)]
    return parts if len(aparts) == 1 else [*parts, _further_action_part(aparts[1] - aparts[0])]


def _first(steps: Steps, episodes: int) -> Steps:
    data = dataclasses.replace(steps.rollouts, initial_episodes=0, initial_steps=0)
    return Steps(data.prefix(int(steps.ends[episodes - 1])), steps.folds)


def _check_finite(psi: np.ndarray, scores: np.ndarray) -> None:
    if not (np.isfinite(psi).all() and np.isfinite(scores).all()):
        raise DataError("the features or the scores of the data are not finite, or too large for single precision")


def _behind(
    steps: Steps, policy: MLP | External, features: StepFeatures, part: Steps, learnt: list[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Of the episodes behind those that taught: S, and their C [episodes, λ · ridge] for each of some weights.

    Many steps are looked at a chunk at a time.
    """
    flat = [weights.reshape(-1, *weights.shape[2:]).astype(np.float32) for weights in learnt]  # [ways, scores, m]
    found = [np.zeros((steps.n, len(w))) for w in flat]
    S: np.ndarray | float = 0.0
    for a in range(int(part.ends[-1]), int(steps.ends[-1]), CHUNK):
        rows = slice(a, min(a + CHUNK, int(steps.ends[-1])))
        hidden, scores = hidden_and_scores(policy, steps, rows)
        psi, scores = features.of(hidden, steps.observations[rows], steps.discount[rows]), scores.astype(np.float32)
        _check_finite(psi, scores)
        S = S + psi[:, : features.own].T.astype(np.float64) @ scores
        for w, result in zip(flat, found, strict=True):
            ways, count, m = w.shape
            gains = np.einsum("iwc,ic->iw", (psi[:, :m] @ w.reshape(-1, m).T).reshape(-1, ways, count), scores)
            episode = steps.episode[rows]
            begun = np.flatnonzero(np.diff(episode, prepend=-1))
            result[episode[begun]] += np.add.reduceat(gains, begun, axis=0)
    return np.asarray(S), [result[part.n :] for result in found]


def _further_action_part(apart: np.ndarray) -> ActionPart:
    """What all features explain beyond the policy's own, [n, K]. Nobody balances it, so it is as loose as it can be."""
    return ActionPart(apart, lambda way: 0.0, 1.0, 0.0)


class _Fit:
    """Steps in the order of their folds and, within them, of their actions; with sums over each of these blocks."""

    def __init__(self, steps: Steps, psi: np.ndarray, own: int, scores: np.ndarray, n_actions: int | None) -> None:
        """own: how many of the features, from the first, Â is linear in."""
        group = steps.choices if n_actions is not None else np.zeros(len(steps.t), dtype=np.int64)
        self.steps, self.discrete, self.groups = steps, n_actions is not None, n_actions or 1
        block = steps.fold * self.groups + group
        self.order = np.argsort(block, kind="stable")
        bounds = np.searchsorted(block[self.order], np.arange(steps.folds * self.groups + 1))
        self.blocks = [slice(a, b) for a, b in itertools.pairwise(bounds)]
        self.folds = [slice(a, b) for a, b in itertools.pairwise(bounds[:: self.groups])]
        self.psi, self.in_turn = psi[self.order], psi
        self.scores = scores[self.order].astype(np.float32)
        m = psi.shape[1]
        grams = [self.psi[s].T @ self.psi[s] for s in self.blocks]
        self.grams = np.array(grams, dtype=np.float64).reshape(steps.folds, self.groups, m, m)
        y = steps.discounted_to_go()[self.order].astype(np.float32)
        self.moments = np.array([self.psi[s].T @ y[s] for s in self.folds], dtype=np.float64)
        self.use(own)

    def use(self, features: int) -> None:
        """Make Â linear in this many features, from the first."""
        self.own = np.ascontiguousarray(self.psi[:, :features])
        self.S = (self.own.T @ self.scores).astype(np.float64)

    def apart(self) -> np.ndarray:
        """C of every episode in every way, [n, λ · ridge], with an Â that was learnt from the other folds."""
        steps = self.steps
        result = np.empty((steps.n, len(LAMBDAS), len(RIDGES)))
        for k in range(steps.folds):
            result[k :: steps.folds] = self.explained(self.weights(k), k)
        return result.reshape(steps.n, -1)

    def others(self, k: int | None) -> list[slice]:
        """Where the steps of all folds but the k-th stand."""
        return self.folds if k is None or len(self.folds) == 1 else self.folds[:k] + self.folds[k + 1 :]

    def targets(self, k: int | None, H: np.ndarray) -> np.ndarray:
        """γᵗ A_t of every step for every λ, [N, λ], with a V̂ that was learnt without the k-th fold."""
        g = self.moments.sum(axis=0) if k is None else without(self.moments, k)
        V = self.in_turn @ _solve(H, g, RIDGE_OF_VALUE).astype(np.float32)
        improved = (generalised(self.steps, V, (PASS,))[:, 0] + V)[self.order]
        g = np.sum([self.psi[s].T @ improved[s] for s in self.others(k)], axis=0, dtype=np.float64)
        V = self.in_turn @ _solve(H, g, RIDGE_OF_VALUE).astype(np.float32)
        return generalised(self.steps, V, LAMBDAS)[self.order]

    def weights(self, k: int | None, only_lambda: int | None = None, only_ridge: int | None = None) -> np.ndarray:
        """The weights [λ, ridge, scores, m] of Â, learnt without the k-th fold; or those of a single λ and ridge."""
        H = self.grams.sum(axis=0) if k is None else without(self.grams, k)
        A = self.targets(k, H.sum(axis=0))
        A = A if only_lambda is None else A[:, only_lambda : only_lambda + 1]
        ridges = RIDGES if only_ridge is None else RIDGES[only_ridge : only_ridge + 1]
        count, m = self.S.shape[1], self.own.shape[1]
        H = H[:, :m, :m]
        right = np.zeros((m, count, A.shape[1]))
        if self.discrete:
            held = self.steps.folds if k is None or len(self.folds) == 1 else k
            for at, s in enumerate(self.blocks):
                if at // self.groups != held:
                    right[:, at % self.groups] += self.own[s].T @ A[s]
        else:
            for s in self.others(k):
                for j in range(A.shape[1]):
                    right[:, :, j] += self.own[s].T @ (self.scores[s] * A[s, j : j + 1])
        if self.discrete:
            return _solve_all(H, right.transpose(1, 0, 2), ridges).transpose(3, 0, 1, 2)
        found = _solve_all(H, right.reshape(1, m, -1), ridges)
        return found.reshape(len(ridges), m, count, -1).transpose(3, 0, 2, 1)

    def explained(self, weights: np.ndarray, k: int) -> np.ndarray:
        """Σ_t γᵗ Â(s_t, a_t) of the episodes of the k-th fold, [episodes, λ, ridge]."""
        mine, steps = self.folds[k], self.steps
        episode = steps.episode[self.order[mine]]
        flat = weights.reshape(-1, *weights.shape[2:]).astype(np.float32)
        result = np.empty((len(range(k, steps.n, steps.folds)), len(flat)))
        for i, w in enumerate(flat):
            gains = np.einsum("ij,ij->i", self.own[mine] @ w.T, self.scores[mine])
            result[:, i] = np.bincount(episode, gains, minlength=steps.n)[k :: steps.folds]
        return result.reshape(-1, *weights.shape[:2])

    def of_episodes(self, weights: np.ndarray) -> np.ndarray:
        """Σ_t γᵗ Â(s_t, a_t) of every episode [n], for some weights [scores, m]."""
        gains = np.einsum("ij,ij->i", self.own @ weights.T.astype(np.float32), self.scores)
        return np.bincount(self.steps.episode[self.order], gains, minlength=self.steps.n)

    def looseness(self, S: np.ndarray, times: float) -> float:
        """How unbalanced S = Σ ψ ⊗ score is: the median of its squares along the principal directions of K, relative to K.

        K = Σ ψψᵀ · (mean square of the scores) is the covariance that S would have in independent data. S may come from
        more steps than are known here, `times` as many.
        """
        stride = max(1, len(self.own) // (64 * self.own.shape[1]))  # a part of the steps is enough
        some, spread = self.own[::stride], np.square(self.scores[::stride]).mean(axis=1)
        power, directions = patiently(np.linalg.eigh, stride * (some.T @ (some * spread[:, None])).astype(np.float64))
        firm = power > FIRM * power.mean()
        return median_square((directions[:, firm].T @ S) ** 2 / (times * power[firm, None]))


def generalised(steps: Steps, V: np.ndarray, lambdas: tuple[float, ...]) -> np.ndarray:
    """γᵗ A_t of every step for every λ, [N, λ], where V [N] is γᵗ V̂(s_t). What follows an episode's end is worth 0."""
    after = np.append(V[1:], np.float32(0.0))
    after[steps.ends - 1] = 0.0
    errors = (steps.discount * steps.rewards).astype(np.float32) + after - V
    result = np.empty((len(V), len(lambdas)), dtype=np.float32)
    arrays = errors, steps.ends.astype(np.int64), np.array(lambdas, dtype=np.float32), result.reshape(-1)
    _sum_backwards()(arrays, len(steps.ends), len(lambdas))
    return result


@functools.cache
def _sum_backwards() -> Any:
    return compiled(_backwards_kernel, void(Addresses((float32, int64, float32, float32)), int64, int64))


def _backwards_kernel(arrays: Any, episodes: Any, count: Any) -> None:
    """result_t = errors_t + λ result_{t+1} within every episode, for each of `count` λ."""
    errors, ends, lambdas, result = pointers(arrays)
    start = 0
    for episode in range(episodes):
        end = ends[episode]
        for j in range(count):
            total = np.float32(0.0)
            for t in range(end - 1, start - 1, -1):
                total = errors[t] + lambdas[j] * total
                result[t * count + j] = total
        start = end


def _solve(H: np.ndarray, g: np.ndarray, ridge: float) -> np.ndarray:
    """H⁻¹g with a ridge."""
    return np.asarray(_solve_all(H[None], g[None, :, None], (ridge,))[0, 0, :, 0])


def _solve_all(H: np.ndarray, g: np.ndarray, ridges: Sequence[float]) -> np.ndarray:
    """H⁻¹g [ridges, matrices, m, …] of some matrices H [matrices, m, m] and sides g [matrices, m, …], with every ridge."""
    m = H.shape[-1]
    firm = np.array([[ridge * max(float(np.trace(one)) / m, 1e-300) for one in H] for ridge in ridges])
    firmed = np.repeat(H[None], len(ridges), axis=0)
    firmed.reshape(*firm.shape, m * m)[:, :, :: m + 1] += firm[:, :, None]
    return np.asarray(patiently(np.linalg.solve, firmed, np.broadcast_to(g, (len(ridges), *g.shape))))
