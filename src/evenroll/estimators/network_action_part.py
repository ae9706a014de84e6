"""The action part of a network: what episodes still earned, regressed on scores times features of the state."""

from __future__ import annotations

import itertools

import numpy as np

from evenroll.estimators.action_part import ActionPart, Steps, median_square, without
from evenroll.policies import MLP, External

CHUNK = 2048  # steps that go through a network at once, so that what they leave behind stays in the cache
# The ridge is relative to the mean squared (standardised) feature. From 1e-3 to 5e-2 residuals differ by at most 5 %.
RIDGE = 1e-2
LONGEST_FOR_PRODUCTS = 8  # observations up to this long enter with all their products; a choice


def network_action_part(steps: Steps, policy: MLP | External) -> ActionPart:
    """Weighted least squares, step by step: γᵗ(return to go − V̂(s_t)) regressed on γᵗ · score ⊗ ψ(s_t, t).

    ψ consists of the last hidden features and of all products of two of (1, observation, γᵗ), standardised; V̂ is linear in
    ψ too. The weights of a discrete action come from the steps that took it. The scores of a Gaussian are orthonormal, so
    that all their weights share one matrix. Single precision is enough: any w gives a valid correction, and the noise in w
    is far above 1e-6 anyway.
    """
    hidden, scores = _forward(policy, steps)
    group = steps.choices if policy.n_actions is not None else np.zeros(len(steps.t), dtype=np.int64)
    groups = policy.n_actions or 1
    block = steps.fold * groups + group
    order = np.argsort(block, kind="stable")  # one slice for each fold and action
    bounds = np.searchsorted(block[order], np.arange(steps.folds * groups + 1))
    slices = [slice(a, b) for a, b in itertools.pairwise(bounds)]
    psi = _features(steps, hidden)[order]
    y = steps.discounted_to_go()[order].astype(np.float32)
    m = psi.shape[1]
    grams = np.array([psi[s].T @ psi[s] for s in slices], dtype=np.float64).reshape(steps.folds, groups, m, m)
    moments = np.array([psi[s].T @ y[s] for s in slices], dtype=np.float64).reshape(steps.folds, groups, m)
    whole = [slice(bounds[k * groups], bounds[(k + 1) * groups]) for k in range(steps.folds)]
    weighted = scores[order].astype(np.float32)
    gains = np.empty(len(y))

    def weights(H: np.ndarray, g: np.ndarray, others: list[slice]) -> np.ndarray:
        """The weights [m, scores] of Â, from the sums H and g over some of the folds and, if Gaussian, from their steps."""
        base = _solve(H.sum(axis=0), g.sum(axis=0))
        if policy.n_actions is not None:
            right = g - H @ base
        else:
            right = np.zeros((scores.shape[1], m))
            for other in others:
                left = y[other] - psi[other] @ base.astype(np.float32)
                right += (psi[other].T @ (weighted[other] * left[:, None])).T
        return np.stack([_solve(H[min(c, groups - 1)], right[c]) for c in range(len(right))], axis=1)

    for k, mine in enumerate(whole):
        w = weights(without(grams, k), without(moments, k), whole if len(whole) == 1 else whole[:k] + whole[k + 1 :])
        worth = (psi[mine] @ w.astype(np.float32)).astype(np.float64)
        gains[order[mine]] = np.einsum("ij,ij->i", worth, scores[order[mine]])
    S = (psi.T @ weighted).astype(np.float64)
    together = float((weights(grams.sum(axis=0), moments.sum(axis=0), whole) * S).sum()) / steps.n
    return ActionPart(steps.per_episode(gains), together, _looseness(psi, weighted, S), 0.0)


def _looseness(psi: np.ndarray, scores: np.ndarray, S: np.ndarray) -> float:
    """How unbalanced S = Σ ψ ⊗ score is: the median of its squares along the principal directions of K, relative to K.

    K = Σ ψψᵀ · (mean square of the scores) is the covariance that S would have in independent data.
    """
    stride = max(1, len(psi) // (64 * psi.shape[1]))  # a part of the steps is enough
    some, spread = psi[::stride], np.square(scores[::stride]).mean(axis=1)
    power, directions = np.linalg.eigh(stride * (some.T @ (some * spread[:, None])).astype(np.float64))
    firm = power > RIDGE * power.mean()
    return median_square((directions[:, firm].T @ S) ** 2 / power[firm, None])


def _forward(policy: MLP | External, steps: Steps) -> tuple[np.ndarray, np.ndarray]:
    """The last hidden features [N, features], in float32, and the scores of the actions [N, scores]."""
    distribution = policy.distribution
    if isinstance(policy, External):
        psi, outputs = steps.rollouts.column("features")[: len(steps.t)], steps.rollouts.column("outputs")[: len(steps.t)]
        return psi[:, :-1].astype(np.float32), distribution.scores(outputs, steps.actions)
    hidden, scores = [], []
    for a in range(0, len(steps.t), CHUNK):
        part = policy.features(steps.observations[a : a + CHUNK])
        hidden.append(part[:, :-1].astype(np.float32))
        scores.append(distribution.scores(policy.outputs_of_features(part), steps.actions[a : a + CHUNK]))
    return np.concatenate(hidden), np.concatenate(scores)


def _features(steps: Steps, hidden: np.ndarray) -> np.ndarray:
    """γᵗ ψ(s_t, t), [N, m], in float32.

    Of long observations only the products with γᵗ enter, so that there are far fewer weights than steps.
    """
    x = steps.observations
    some = slice(None, None, 1 + len(x) // 4096)  # a part of the steps is enough to standardise by
    small = np.append(x / np.maximum(x[some].std(axis=0), 1e-12), steps.discount[:, None], axis=1).astype(np.float32)
    i, j = np.triu_indices(small.shape[1])
    products = small[:, i] * small[:, j] if x.shape[1] <= LONGEST_FOR_PRODUCTS else small[:, :-1] * small[:, -1:]
    psi = np.concatenate([hidden, small, products, np.ones_like(small[:, :1])], axis=1)
    mean, spread = psi[some].mean(axis=0), psi[some].std(axis=0)
    mean[-1], spread[-1] = 0.0, 1.0
    psi -= mean
    psi *= np.where(spread > 1e-6 * spread.max(), 1.0 / np.maximum(spread, 1e-30), 0.0).astype(np.float32)
    psi *= steps.discount[:, None].astype(np.float32)
    return np.asarray(psi)


def _solve(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    """H⁻¹g with a ridge."""
    H = H.copy()
    H[np.diag_indices_from(H)] += RIDGE * max(float(np.trace(H)) / len(H), 1e-300)
    return np.asarray(np.linalg.solve(H, g))
