"""Regression importance sampling: the behaviour policy is the one the data looks like, π̂, not the one that made it.

π̂ is the maximum-likelihood policy of all steps, those of the unfinished trajectory included (behavior_fit.py). Only
finished trajectories are weighted. The weights then correct sampling error as well as a different behaviour policy.
"""

from __future__ import annotations

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.estimators.behavior_fit import fitted_log_probs
from evenroll.estimators.importance import finished, ordinary, sum_by_trajectory, weighted
from evenroll.policies import Policy


def fitted_log_weights(rollouts: Rollouts, policy: Policy) -> np.ndarray:
    """log wᵢ = Σ_t log π_e(a_t|s_t) − log π̂(a_t|s_t), [n]."""
    finished(rollouts)
    return sum_by_trajectory(rollouts.column("log_e") - fitted_log_probs(policy, rollouts), rollouts.ends)


def regression_importance_sampling(rollouts: Rollouts, policy: Policy) -> float:
    """RIS(D) = (1/n) Σᵢ g(Hᵢ) Π_t π_e(a_t|s_t) / π̂(a_t|s_t). It is biased and consistent."""
    return ordinary(fitted_log_weights(rollouts, policy), rollouts.returns)


def weighted_regression_importance_sampling(rollouts: Rollouts, policy: Policy) -> float:
    """WRIS(D) = Σᵢ wᵢ g(Hᵢ) / Σᵢ wᵢ with the weights of RIS. It is within the range of the returns."""
    return weighted(fitted_log_weights(rollouts, policy), rollouts.returns)
