"""Doubly robust estimators: the model's value, corrected by importance-weighted surprises.

With a Q that does not come from the same data, DR is unbiased whatever Q is. With the Q̂ fitted here it is consistent.
"""

from __future__ import annotations

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.estimators.fqe import QFunction, steps_of, values_along
from evenroll.estimators.importance import finished
from evenroll.estimators.per_decision import discounts, running_log_weights, weighted_sum
from evenroll.policies import Policy


def doubly_robust(rollouts: Rollouts, policy: Policy, q: QFunction | None = None) -> float:
    """DR(D) = (1/n) Σᵢ [V(s₀) + Σ_t γᵗ w_t (r_t + γ V_{t+1}(s_{t+1}) − Q_t(s_t, a_t))], with the weights of PDIS.

    V is 0 after the last step of a trajectory. `q` is a fixed Q-function; without it Q̂ is fitted to the same data.
    """
    v, surprise = _model(rollouts, policy, q)
    starts = np.concatenate([[0], rollouts.ends[:-1]])
    return float(v[starts].mean()) + weighted_sum(running_log_weights(rollouts), surprise) / rollouts.episodes


def weighted_doubly_robust(rollouts: Rollouts, policy: Policy, q: QFunction | None = None) -> float:
    """WDR(D) = (1/n) Σᵢ V(s₀) + Σᵢ Σ_t γᵗ w̃_t (r_t + γ V_{t+1}(s_{t+1}) − Q_t(s_t, a_t)), w̃_tⁱ = w_tⁱ / Σⱼ w_tʲ.

    As in Thomas and Brunskill 2016, a trajectory that has ended keeps its last weight in the sum over j. The estimate is
    biased and consistent.
    """
    v, surprise = _model(rollouts, policy, q)
    starts = np.concatenate([[0], rollouts.ends[:-1]])
    log_w = running_log_weights(rollouts)
    times = steps_of(rollouts).times
    log_total = _log_totals(log_w, times, rollouts.lengths, rollouts.ends)[times]
    share = np.exp(np.where(log_w == -np.inf, -np.inf, log_w - np.maximum(log_total, log_w)))
    return float(v[starts].mean() + share @ surprise)


def _model(rollouts: Rollouts, policy: Policy, q: QFunction | None) -> tuple[np.ndarray, np.ndarray]:
    """V_t(s_t) and γᵗ (r_t + γ V_{t+1}(s_{t+1}) − Q_t(s_t, a_t)) of every step. It is 0 where the model knows nothing."""
    finished(rollouts)
    taken, v = (np.nan_to_num(x) for x in (q.along(rollouts) if q else values_along(rollouts, policy)))
    following = np.append(v[1:], 0.0)
    following[rollouts.ends - 1] = 0.0
    rewards = rollouts.column("rewards")[: len(v)]
    return v, discounts(rollouts) * (rewards + rollouts.gamma * following - taken)


def _log_totals(log_w: np.ndarray, times: np.ndarray, lengths: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """log Σⱼ w_tʲ for every time t."""
    longest = int(lengths.max())
    ended = _log_sums(log_w[ends - 1], lengths, longest + 1)  # by the time after the last step
    return np.asarray(np.logaddexp(_log_sums(log_w, times, longest), np.logaddexp.accumulate(ended)[:longest]))


def _log_sums(log_w: np.ndarray, groups: np.ndarray, size: int) -> np.ndarray:
    """log Σ exp(log w) within each group."""
    top = np.full(size, -np.inf)
    np.maximum.at(top, groups, log_w)
    base = np.where(top == -np.inf, 0.0, top)
    with np.errstate(divide="ignore"):
        return np.asarray(base + np.log(np.bincount(groups, np.exp(log_w - base[groups]), minlength=size)))
