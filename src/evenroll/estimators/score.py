"""Score regression: the value with the luck of the actions taken out."""

from __future__ import annotations

from evenroll.collection.rollouts import Rollouts
from evenroll.estimators.score_regression import score_regression
from evenroll.policies import Policy


def score(rollouts: Rollouts, policy: Policy) -> float:
    """Intercept of the returns regressed on Σ_t γᵗ Â(s_t, a_t), Â in the span of the scores and cross-fitted (scores.py).

    Consistent for on-policy and for balanced data; data from another policy keeps the part of A outside the span.
    """
    return score_regression(rollouts, policy).value
