"""How far a data set is from on-policy: the paper's two measures (appendix on sampling error)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.estimators.behavior_fit import fitted_log_probs
from evenroll.policies import External, Policy


def kl_sampling_error(rollouts: Rollouts, policy: Policy) -> float:
    """(1/N) Σ_t log π̂(a_t|s_t) − log π_e(a_t|s_t), where π̂ is the maximum-likelihood policy of the data.

    paper: a sum; published numbers: the mean; here: the mean. The unfinished trajectory counts. Without data it is nan.
    """
    if rollouts.steps == 0:
        return float("nan")
    return float(np.mean(fitted_log_probs(policy, rollouts) - rollouts.column("log_e")))


def gradient_sampling_error(rollouts: Rollouts, policy: Policy) -> float:
    """Mean absolute entry of (1/N) Σ_t ∇log π_e(a_t|s_t): it is 0 if every score is balanced."""
    if rollouts.steps == 0:
        return float("nan")
    if isinstance(policy, External):  # only the scores of the last layer are known
        scores = policy.distribution.scores(rollouts.column("outputs"), rollouts.column("actions"))
        return float(np.mean(np.abs(scores.T @ rollouts.column("features"))) / rollouts.steps)
    total = policy.score_sum(rollouts.column("observations"), rollouts.column("actions"))
    return float(np.mean(np.abs(total.astype(np.float64))) / rollouts.steps)


def gradient_sampling_errors(rollouts: Rollouts, policy: Policy, checkpoints: Sequence[int]) -> np.ndarray:
    """[checkpoints]: `gradient_sampling_error` after that many new steps; scores are summed once. Without data it is nan."""
    observations, actions = rollouts.column("observations"), rollouts.column("actions")
    result = np.full(len(checkpoints), np.nan)
    total, done = np.zeros(policy.parameters), 0
    for i, steps in enumerate(checkpoints):
        upto = rollouts.initial_steps + steps
        total += policy.score_sum(observations[done:upto], actions[done:upto])
        done = upto
        if done:
            result[i] = np.mean(np.abs(total)) / done
    return result
