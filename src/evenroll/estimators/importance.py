"""Importance sampling over whole trajectories, wᵢ = Π π_e/π_b, with the weights in log space."""

from __future__ import annotations

import numpy as np

from evenroll.errors import NoEstimate
from evenroll.estimators.monte_carlo import monte_carlo
from evenroll.rollouts import Rollouts


def _weighted(rollouts: Rollouts) -> tuple[np.ndarray, np.ndarray]:
    if rollouts.episodes == 0:
        raise NoEstimate("no trajectory has finished")
    return rollouts.column("log_weights"), rollouts.returns


def ordinary_importance_sampling(rollouts: Rollouts) -> float:
    """OIS(D) = (1/n) Σᵢ wᵢ g(Hᵢ). Unbiased; infinite only if a weight is."""
    log_w, returns = _weighted(rollouts)
    top = max(float(log_w.max()), 0.0)
    return float(np.exp(top) * np.mean(np.exp(log_w - top) * returns))


def weighted_importance_sampling(rollouts: Rollouts) -> float:
    """WIS(D) = Σᵢ wᵢ g(Hᵢ) / Σᵢ wᵢ. Biased, consistent; within the range of the returns."""
    log_w, returns = _weighted(rollouts)
    w = np.exp(log_w - log_w.max())
    return float(w @ returns / w.sum())


def weighted_then_monte_carlo(rollouts: Rollouts) -> float:
    """(WIS+MC): WIS on the initial data, MC on the new, weighted by their numbers of trajectories."""
    initial, new = rollouts.split_initial()
    if initial.episodes == 0:
        return monte_carlo(new)
    first = weighted_importance_sampling(initial)
    if new.episodes == 0:
        return first
    n, m = initial.episodes, new.episodes
    return (n * first + m * monte_carlo(new)) / (n + m)


def effective_sample_size(rollouts: Rollouts) -> float:
    """(Σ w)² / Σ w²: how many equally weighted trajectories the weights are worth."""
    log_w, _ = _weighted(rollouts)
    w = np.exp(log_w - log_w.max())
    return float(w.sum() ** 2 / (w @ w))


def largest_weight(rollouts: Rollouts) -> float:
    """The largest trajectory's share of all weight, 1/n if all are equal."""
    log_w, _ = _weighted(rollouts)
    w = np.exp(log_w - log_w.max())
    return float(1.0 / w.sum())
