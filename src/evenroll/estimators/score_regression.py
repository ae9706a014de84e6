"""The value with the luck of the actions and of the starts taken out, and how precise it is.

G − v = [start state] + Σ_t γᵗ A(s_t, a_t) + [environment noise]. A martingale control variate removes the middle term:

    C_i = Σ_t γᵗ Â(s_t, a_t),   Â(s, ·) = Σ_j w_j · score_j(s, ·),   so that  Σ_a π_e(a|s) Â(s, a) = 0 for any weights w.

The simplest way to w is to regress the n returns on the D scores summed over each episode. Its intercept, the estimate of
v, is biased by E[leverage · residual], because long episodes have much of both. The bias is one to five standard errors at
n = 512 (docs/intervals.md). Here w comes from the N ≫ n steps instead, and from *other* episodes than the one it is used on
(cross-fitting). So what an episode did cannot have shaped its own correction, and the residuals are honest out-of-sample
ones. How Â is learnt depends on the policy: `table_action_part.py`, `network_action_part.py`. The first term is removed
where further resets show what starts there are: `start_part.py`. `corrections.py` puts the two together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import NoEstimate
from evenroll.estimators.action_part import ActionPart, Steps
from evenroll.estimators.corrections import corrections, folds_of
from evenroll.estimators.network_action_part import network_action_part
from evenroll.estimators.skewness import skewness
from evenroll.estimators.start_part import Starts, starts_of
from evenroll.estimators.table_action_part import table_action_part
from evenroll.policies import MLP, External, Policy, TabularSoftmax

FEWEST = 8  # with fewer episodes there is too little to learn from: a network's actions, and how wide an interval may be
ROUNDING = 1e-9  # residuals below this share of the largest return are rounding errors


@dataclass(frozen=True)
class Share:
    """A share of the returns' variance, and its standard error."""

    value: float
    error: float


@dataclass(frozen=True)
class ScoreRegression:
    """What n returns say of the value when the luck that could be found is taken out of them.

    value      the estimate of v
    error      the standard error of the value
    freedom    the degrees of freedom of the standard error: one less than there are values
    imbalance  how much the plain mean of the returns owes to the luck that was taken out: mean − value
    unseen     how often an episode is expected to take an action of a table that fewer than two folds have taken. What
               such an action is worth cannot be told from other folds.
    exact      whether the model of a table explains every return to rounding error
    actions    the share of the returns' variance that was found to be luck of the actions
    starts     the share that was found to be luck of the start; None if there were no further resets to tell
    skewness   the skewness of the returns after the luck is taken out
    """

    value: float
    error: float
    freedom: int
    imbalance: float
    unseen: float
    exact: bool = False
    actions: Share = Share(1.0, 0.0)
    starts: Share | None = None
    skewness: float = 0.0

    @property
    def explained(self) -> float:
        """The share of the returns' variance that was taken out."""
        return min(self.actions.value + (0.0 if self.starts is None else self.starts.value), 1.0)


def score_regression(rollouts: Rollouts, policy: Policy | None) -> ScoreRegression:
    """The value of a policy from its rollouts. A policy that is None leaves nothing to chance, or nothing that is known."""
    n = rollouts.episodes
    if n < 3:
        raise NoEstimate(f"a regression needs at least 3 finished trajectories, not {n}")
    exact = _exact_fit(rollouts, policy) if isinstance(policy, TabularSoftmax) else None
    if exact is not None:
        return exact
    parts = [] if policy is None else action_parts(rollouts, policy)
    return regress(rollouts.returns, parts, starts_of(rollouts))


def regress(values: np.ndarray, parts: Sequence[ActionPart], starts: Starts | None = None) -> ScoreRegression:
    """The mean of some values [n] with action parts and the part of the starts taken out.

    The squared error of the mean is Var(e)/n, where e are the values after the corrections, and what the resets leave open.
    Of several ways to correct, the best is made, which flatters a little; Var(e) pays for it with a degree of freedom for
    every part (tests/estimators/test_corrections.py has the measurement). e are out-of-sample otherwise, n of them. What
    balanced data has no luck in is taken off (`corrections.py`, hidden).
    """
    n = len(values)
    if not math.isfinite(float(values.var())):  # the squares overflow
        return ScoreRegression(float(values.mean()), math.inf, n - 1, 0.0, 0.0, actions=Share(0.0, 0.0))
    made = corrections(values, parts, starts)
    left = made.left(values)
    spread = left - left.mean()  # before it is squared: returns may lie far from 0
    variance, imbalance = float(spread @ spread) / (n - 1 - len(parts)), made.by_actions + made.by_starts
    error = math.sqrt(max(variance - made.hidden, 0.0) / n + made.noise)
    unseen = max((part.unseen for part in parts), default=0.0)
    of_starts = None if starts is None else _share(values - made.actions, left, values)
    return ScoreRegression(
        float(values.mean()) - imbalance, error, n - 1, imbalance, unseen,
        actions=_share(values, values - made.actions, values), starts=of_starts,
        skewness=skewness(left),
    )  # fmt: skip


def _share(before: np.ndarray, after: np.ndarray, values: np.ndarray) -> Share:
    """How much of the variance of the values goes away from `before` to `after`, with its standard error.

    The share is a ratio of means over episodes, (Var before − Var after)/Var values; its error is that of the linearised
    ratio (the delta method).
    """
    squares = [np.square(x - x.mean()) for x in (before, after, values)]
    total = float(squares[2].mean())
    if total <= 0.0:
        return Share(0.0, 0.0)
    share = float(squares[0].mean() - squares[1].mean()) / total
    spread = (squares[0] - squares[1] - share * squares[2]) / total
    return Share(max(share, 0.0), float(spread.std(ddof=1)) / math.sqrt(len(values)))


def action_parts(rollouts: Rollouts, policy: Policy, folds: int | None = None) -> list[ActionPart]:
    """C of every episode, in one part or two. Episodes i ≡ k (mod folds) form fold k.

    Fewer than FEWEST episodes do not show what the actions of a network are worth, and there is no part. (With five episodes
    of CartPole-v1 it made the squared error 1.7 times as large, with eight 1.2, with sixteen 0.9: 120 repeats.)
    """
    if rollouts.episodes < FEWEST and not isinstance(policy, TabularSoftmax):
        return []
    steps = Steps(rollouts, folds_of(rollouts.episodes) if folds is None else folds)
    if isinstance(policy, TabularSoftmax):
        return [table_action_part(steps, policy)]
    assert isinstance(policy, MLP | External)
    return network_action_part(steps, policy)


def _exact_fit(rollouts: Rollouts, policy: TabularSoftmax) -> ScoreRegression | None:
    """Where the model of all the data leaves no residual (a deterministic domain), G_i − C_i is v itself, for every i.

    The model is trusted only if every action of every state that was met was taken at least twice, because an action that
    was taken once always fits.
    """
    part = action_parts(rollouts, policy, folds=1)[0]
    C = part.apart[:, 0]
    left = rollouts.returns - C
    if part.unseen > 0.0 or float(np.ptp(left)) > ROUNDING * float(np.abs(rollouts.returns).max()):
        return None
    total = int(rollouts.ends[-1])
    cells = rollouts.column("observations")[:total, 0] * policy.table.shape[1] + rollouts.column("actions")[:total, 0]
    if (np.unique(cells, return_counts=True)[1] < 2).any():
        return None
    return ScoreRegression(float(left.mean()), 0.0, rollouts.episodes - 2, float(C.mean()), 0.0, exact=True)
