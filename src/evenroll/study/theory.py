"""The paper's theory as functions, which tests and pictures compare data with.

Everything here is for layered finite MDPs: time is part of the state, as the paper assumes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def kl_divergence(p: np.ndarray, q: np.ndarray) -> float:
    """KL(p‖q) = Σ p log(p/q), with 0 log 0 = 0. It is infinite if p puts mass where q has none."""
    p, q = np.asarray(p, dtype=float).ravel(), np.asarray(q, dtype=float).ravel()
    support = p > 0
    with np.errstate(divide="ignore"):
        return float(np.sum(p[support] * (np.log(p[support]) - np.log(q[support]))))


def count_deviation(actions: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """count(a) − visits·π(a) in one state after each visit: [visits, actions].

    By Lemma 1 (α → ∞, no initial data) it is at most 1 from above and |A| − 1 in absolute value, at all times.
    """
    taken = np.eye(len(probabilities))[np.asarray(actions, dtype=int)].cumsum(axis=0)
    return np.asarray(taken - np.arange(1, len(taken) + 1)[:, None] * probabilities)


def frequencies_kl(actions: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """KL(π_D‖π) in one state after each visit. By Theorem 2 it is O(1/m²) under ROS (α → ∞) and O(1/m) on-policy."""
    taken = np.eye(len(probabilities))[np.asarray(actions, dtype=int)].cumsum(axis=0)
    frequency = taken / np.arange(1, len(taken) + 1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = frequency * (np.log(frequency) - np.log(probabilities))
    return np.asarray(np.where(frequency > 0, terms, 0.0).sum(axis=1))


def visitation(transitions: np.ndarray, policy: np.ndarray, start: np.ndarray, horizon: int) -> np.ndarray:
    """d_π^t(s), exactly: [horizon, states]. P [states, actions, states], π [states, actions]."""
    step = np.einsum("sa,sap->sp", policy, transitions)
    d = [np.asarray(start, dtype=float)]
    for _ in range(horizon - 1):
        d.append(d[-1] @ step)
    return np.array(d)


@dataclass(frozen=True)
class ErrorBounds:
    """Two upper bounds on (v − MC)²: the one the paper prints, and the one that holds."""

    printed: float
    corrected: float


def theorem_3_bounds(empirical: np.ndarray, on_policy: np.ndarray, gamma: float, r_max: float) -> ErrorBounds:
    """Bounds from the divergence KL_t of the (state, action) frequencies [horizon, states·actions] at each time t.

    KL_t = KL(d_n^t‖d_π^t) + E_{d_n^t} KL(π_D‖π_e) by the chain rule. Pinsker gives, for |R| ≤ r_max a function of
    (s, a),  |v − MC| ≤ Σ_t γᵗ r_max √(2 KL_t); its square is `corrected`.

    paper: Σ_t γ²ᵗ r_max² √(2 KL_t), whose proof squares the sum as if (Σx)² ≤ Σx². Counter-example: two steps, one
    state each, π = ½, R = ±1, the one trajectory (a₀, a₀): squared error 4, printed bound 2√(2 ln 2) ≈ 2.36.
    """
    kl = np.array([kl_divergence(p, q) for p, q in zip(empirical, on_policy, strict=True)])
    discount = gamma ** np.arange(len(kl))
    root = np.sqrt(2.0 * kl)
    return ErrorBounds(
        printed=float(np.sum(discount**2 * r_max**2 * root)), corrected=float(np.sum(discount * r_max * root) ** 2)
    )
