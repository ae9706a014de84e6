"""Importance sampling over whole trajectories, wᵢ = Π π_e/π_b, with the weights in log space.

An action with π_b = 0 in the data is an error that names the step, because the behaviour policy cannot have made such
data. An action with π_e = 0 gives its trajectory the weight 0.
"""

from __future__ import annotations

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError, NoEstimate
from evenroll.estimators.monte_carlo import monte_carlo


def finished(rollouts: Rollouts) -> None:
    if rollouts.episodes == 0:
        raise NoEstimate("no trajectory has finished")


def step_log_ratios(rollouts: Rollouts) -> np.ndarray:
    """log π_e(a_t|s_t) − log π_b(a_t|s_t) of every step of the finished trajectories."""
    finished(rollouts)
    log_e, log_b = (rollouts.column(name)[: rollouts.ends[-1]] for name in ("log_e", "log_b"))
    bad = np.isnan(log_e) | np.isnan(log_b) | (log_b == -np.inf) | (log_e == np.inf)
    if bad.any():
        at = int(np.argmax(bad))
        i = int(np.searchsorted(rollouts.ends, at, side="right"))
        t = at - int(rollouts.ends[i - 1] if i else 0)
        problem = "the behaviour policy gives probability 0 to" if log_b[at] == -np.inf else "there is no weight for"
        raise DataError(f"trajectory {i}, step {t}: {problem} the action in the data (counted from 0)")
    return np.asarray(log_e - log_b)


def sum_by_trajectory(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The sum over each finished trajectory, made separately so that no rounding error is carried to the next one."""
    return np.add.reduceat(values[: ends[-1]], np.concatenate([[0], ends[:-1]])) if len(ends) else np.zeros(0)


def trajectory_log_weights(rollouts: Rollouts) -> np.ndarray:
    """log wᵢ [n]. They come from the steps if those were recorded, otherwise from the sums made while collecting."""
    finished(rollouts)
    if rollouts.log_e is not None and rollouts.log_b is not None:
        return sum_by_trajectory(step_log_ratios(rollouts), rollouts.ends)
    log_w = rollouts.column("log_weights")
    bad = np.isnan(log_w) | (log_w == np.inf)
    if bad.any():
        raise DataError(f"trajectory {np.argmax(bad)} has no finite weight: π_b = 0 for one of its actions (counted from 0)")
    return log_w


def ordinary(log_w: np.ndarray, values: np.ndarray) -> float:
    """(1/n) Σᵢ wᵢ xᵢ."""
    top = float(log_w.max())
    if top == -np.inf:
        return 0.0
    mean = float(np.mean(np.exp(log_w - top) * values))
    with np.errstate(over="ignore"):
        value = float(np.exp(top)) * mean if mean else 0.0
    if not np.isfinite(value):
        raise NoEstimate(f"the largest weight, exp({top:.4g}), is beyond floating point; use a weighted estimator")
    return value


def weighted(log_w: np.ndarray, values: np.ndarray) -> float:
    """Σᵢ wᵢ xᵢ / Σᵢ wᵢ."""
    w = _relative(log_w)
    return float(w @ values / w.sum())


def _relative(log_w: np.ndarray) -> np.ndarray:
    """Weights divided by the largest."""
    if len(log_w) == 0 or log_w.max() == -np.inf:
        raise NoEstimate("no finished trajectory is possible under the evaluation policy: every weight is 0")
    return np.asarray(np.exp(log_w - log_w.max()))


def ordinary_importance_sampling(rollouts: Rollouts) -> float:
    """OIS(D) = (1/n) Σᵢ wᵢ g(Hᵢ). It is unbiased."""
    return ordinary(trajectory_log_weights(rollouts), rollouts.returns)


def weighted_importance_sampling(rollouts: Rollouts) -> float:
    """WIS(D) = Σᵢ wᵢ g(Hᵢ) / Σᵢ wᵢ. It is biased, consistent, and within the range of the returns."""
    return weighted(trajectory_log_weights(rollouts), rollouts.returns)


def weighted_then_monte_carlo(rollouts: Rollouts) -> float:
    """WIS on the initial data and MC on the new data, weighted by their numbers of trajectories (the paper's WIS+MC)."""
    initial, new = rollouts.split_initial()
    if initial.episodes == 0:
        return monte_carlo(new)
    first = weighted_importance_sampling(initial)
    if new.episodes == 0:
        return first
    n, m = initial.episodes, new.episodes
    return (n * first + m * monte_carlo(new)) / (n + m)


def effective_sample_size(log_w: np.ndarray) -> float:
    """(Σ w)² / Σ w²: how many equally weighted trajectories the weights are worth. It is 0 if all weights are 0."""
    if log_w.max() == -np.inf:
        return 0.0
    w = _relative(log_w)
    return float(w.sum() ** 2 / (w @ w))


def largest_weight(log_w: np.ndarray) -> float:
    """The largest weight's share of all weight: 1/n if all weights are equal, and 0 if all are 0."""
    return float(1.0 / _relative(log_w).sum()) if log_w.max() > -np.inf else 0.0


def weights_that_do_not_fit(log_w: np.ndarray) -> str | None:
    """What to say if the weights are surely not 1 on average, as they would be if π_b gave every action of π_e its chance.

    A behaviour that hardly ever takes some of the policy's actions has weights below 1, and seldom, perhaps never in this
    data, a huge one. The mean of the weighted returns then says nothing, and their spread does not show it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        w = np.exp(log_w)
        mean, error = float(w.mean()), float(w.std()) / len(w) ** 0.5
    if len(w) < 3 or not abs(mean - 1.0) > 4.0 * error + 1e-6:
        return None
    return (
        f"the importance weights are {mean:.2g} on average and would have to be 1: the behaviour hardly ever takes some of "
        "the policy's actions; wis, mc or score do not rest on that"
    )
