"""Score regression: the value with the luck of the actions, and of the starts, taken out."""

from __future__ import annotations

from evenroll.collection.rollouts import Rollouts
from evenroll.estimators.monte_carlo import monte_carlo
from evenroll.estimators.score_regression import score_regression
from evenroll.policies import Policy


def score(rollouts: Rollouts, policy: Policy | None) -> float:
    """The mean return without what it owes to Σ_t γᵗ Â(s_t, a_t) and to its starts, as `score_regression.py` has it.

    The estimate is consistent for on-policy and for balanced data. On data from another policy it keeps an error, from the
    part of the advantages that lies outside the span of the scores. One or two episodes show no luck: there it is the mean.
    """
    return monte_carlo(rollouts) if rollouts.episodes < 3 else score_regression(rollouts, policy).value
