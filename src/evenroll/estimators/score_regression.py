"""The part of a return that is luck with actions, learnt from the steps and taken out of each episode.

G − v = [start state] + Σ_t γᵗ A(s_t, a_t) + [environment noise]. A martingale control variate removes the middle term:

    C_i = Σ_t γᵗ Â(s_t, a_t),   Â(s, ·) = Σ_j w_j · score_j(s, ·),   so that  Σ_a π_e(a|s) Â(s, a) = 0 for any weights w.

The simplest way to w is to regress the n returns on the D scores summed over each episode. Its intercept, the estimate of
v, is biased by E[leverage · residual], because long episodes have much of both. The bias is one to five standard errors at
n = 512 (docs/intervals.md). Here w comes from the N ≫ n steps instead, and from *other* episodes than the one it is used on
(cross-fitting). So what an episode did cannot have shaped its own correction, and the residuals are honest out-of-sample
ones. How Â is learnt depends on the policy: `table_action_part.py`, `network_action_part.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import NoEstimate
from evenroll.estimators.action_part import ActionPart, Steps
from evenroll.estimators.network_action_part import network_action_part
from evenroll.estimators.table_action_part import table_action_part
from evenroll.policies import MLP, External, Policy, TabularSoftmax

FOLDS = 10  # groups of episodes; each is corrected with what the other nine tell; a choice
ROUNDING = 1e-9  # residuals below this share of the largest return are rounding errors


@dataclass(frozen=True)
class ScoreRegression:
    """Returns regressed on the cross-fitted action part C:  G_i = value + slope · C_i + residual_i.

    value      the intercept: the estimate of v with the luck of the actions taken out
    error      the standard error of the value
    freedom    the degrees of freedom of the standard error
    imbalance  slope · mean(C): how much the plain mean of the returns owes to unbalanced actions
    unseen     how often an episode is expected to take an action of a table that fewer than two folds have taken. What
               such an action is worth cannot be told from other folds.
    exact      whether the model of a table explains every return to rounding error
    explained  the share of the returns' variance that C explains; balancing can remove it, as far as the scores see
    """

    value: float
    error: float
    freedom: int
    imbalance: float
    unseen: float
    exact: bool = False
    explained: float = 1.0


def score_regression(rollouts: Rollouts, policy: Policy) -> ScoreRegression:
    """The regression of some rollouts' returns on C, with one slope for the whole of C.

    Where episodes are few and Â is mostly noise, the slope tends to 0, so that C does no harm.
    """
    n = rollouts.episodes
    if n < 3:
        raise NoEstimate(f"a regression needs at least 3 finished trajectories, not {n}")
    exact = _exact_fit(rollouts, policy) if isinstance(policy, TabularSoftmax) else None
    if exact is not None:
        return exact
    return regress(rollouts.returns, [action_part(rollouts, policy)])


def regress(values: np.ndarray, parts: Sequence[ActionPart]) -> ScoreRegression:
    """Values [n] regressed on action parts X, with a slope for each.

    The squared error of the intercept is RSS/(n − 1 − parts) · (1/n + m·(XᵀX)⁻¹m), where m are the means of the parts.
    """
    n = len(values)
    X = np.stack([part.apart - part.apart.mean() for part in parts], axis=1)
    m = np.array([part.mean for part in parts])
    power = X.T @ X
    inverse = np.linalg.pinv(power, hermitian=True) if power.any() else power
    slope = inverse @ (X.T @ values)
    residual = values - values.mean() - X @ slope
    freedom = n - 1 - len(parts)
    imbalance, variance = float(slope @ m), float(residual @ residual) / freedom
    total = float(values.var(ddof=1))
    explained = max(1.0 - variance / total, 0.0) if total > 0.0 else 0.0
    error = math.sqrt(variance * (1.0 / n + float(m @ inverse @ m)))
    unseen = max(part.unseen for part in parts)
    return ScoreRegression(float(values.mean()) - imbalance, error, freedom, imbalance, unseen, explained=explained)


def action_part(rollouts: Rollouts, policy: Policy, folds: int = FOLDS) -> ActionPart:
    """C of every episode. Episodes i ≡ k (mod folds) form fold k."""
    steps = Steps(rollouts, min(folds, rollouts.episodes))
    if isinstance(policy, TabularSoftmax):
        return table_action_part(steps, policy)
    assert isinstance(policy, MLP | External)
    return network_action_part(steps, policy)


def _exact_fit(rollouts: Rollouts, policy: TabularSoftmax) -> ScoreRegression | None:
    """Where the model of all the data leaves no residual (a deterministic domain), G_i − C_i is v itself, for every i.

    The model is trusted only if every action of every state that was met was taken at least twice, because an action that
    was taken once always fits.
    """
    part = action_part(rollouts, policy, folds=1)
    C, left = part.apart, rollouts.returns - part.apart
    if part.unseen > 0.0 or float(np.ptp(left)) > ROUNDING * float(np.abs(rollouts.returns).max()):
        return None
    total = int(rollouts.ends[-1])
    cells = rollouts.column("observations")[:total, 0] * policy.table.shape[1] + rollouts.column("actions")[:total, 0]
    if (np.unique(cells, return_counts=True)[1] < 2).any():
        return None
    return ScoreRegression(float(left.mean()), 0.0, rollouts.episodes - 2, float(C.mean()), 0.0, exact=True)
