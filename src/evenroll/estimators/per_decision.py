"""Per-decision importance sampling: a reward is weighted only by the decisions that came before it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.engine import border
from evenroll.engine.pieces import compiled
from evenroll.errors import DataError, NoEstimate
from evenroll.estimators.importance import step_log_ratios


def running_log_weights(rollouts: Rollouts) -> np.ndarray:
    """log w_t = Σ_{u ≤ t} log π_e(a_u|s_u) − log π_b(a_u|s_u) of every step of the finished trajectories."""
    ratios = np.ascontiguousarray(step_log_ratios(rollouts), dtype=np.float64)
    result = np.empty_like(ratios)
    _running()(ratios, border.ends("the ends of the data", rollouts.ends, len(ratios), DataError), result)
    return result


def discounts(rollouts: Rollouts) -> np.ndarray:
    """γᵗ of every step of the finished trajectories."""
    lengths = rollouts.lengths
    times = np.arange(int(rollouts.ends[-1])) - np.repeat(rollouts.ends - lengths, lengths)
    return np.asarray(rollouts.gamma**times)


def per_decision_importance_sampling(rollouts: Rollouts) -> float:
    """PDIS(D) = (1/n) Σᵢ Σ_t γᵗ w_t r_t. It is unbiased. Later decisions, which add noise to OIS, are left out."""
    log_w = running_log_weights(rollouts)
    return weighted_sum(log_w, discounts(rollouts) * rollouts.column("rewards")[: len(log_w)]) / rollouts.episodes


def weighted_sum(log_w: np.ndarray, values: np.ndarray) -> float:
    """Σ exp(log w) x. It raises `NoEstimate` where the sum is beyond floating point."""
    top = float(np.max(log_w, initial=-np.inf, where=values != 0.0))
    if top == -np.inf:
        return 0.0
    with np.errstate(over="ignore"):
        scale = float(np.exp(top))
        total = scale * float(np.exp(np.minimum(log_w - top, 0.0)) @ values)
    if not np.isfinite(total):
        raise NoEstimate(f"the largest weight, exp({top:.4g}), is beyond floating point; use a weighted estimator")
    return total


def _running_kernel(ratios: Any, ends: Any, result: Any) -> None:
    first = 0
    for i in range(len(ends)):
        total = 0.0
        for t in range(first, ends[i]):
            total += ratios[t]
            result[t] = total
        first = ends[i]


@functools.cache
def _running() -> Any:
    from numba import float64, int64, void

    return compiled(_running_kernel, void(float64[::1], int64[::1], float64[::1]))
