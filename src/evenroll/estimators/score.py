"""Score regression: the value with the luck of the actions taken out."""

from __future__ import annotations

from evenroll.collection.rollouts import Rollouts
from evenroll.estimators.score_regression import score_regression
from evenroll.policies import Policy


def score(rollouts: Rollouts, policy: Policy) -> float:
    """The intercept of the returns regressed on Σ_t γᵗ Â(s_t, a_t), as `score_regression.py` has it.

    The estimate is consistent for on-policy and for balanced data. On data from another policy it keeps an error, from the
    part of the advantages that lies outside the span of the scores.
    """
    return score_regression(rollouts, policy).value
