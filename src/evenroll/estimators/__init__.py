"""Estimators: plain functions of rollouts, and the record that says what each needs to be kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from evenroll.estimators.importance import (
    ordinary_importance_sampling,
    weighted_importance_sampling,
    weighted_then_monte_carlo,
)
from evenroll.estimators.monte_carlo import monte_carlo
from evenroll.policies import Policy
from evenroll.rollouts import Rollouts


@dataclass(frozen=True)
class Estimator:
    """name, function of (rollouts, policy), and what must be recorded: returns, weights or every step."""

    name: str
    function: Callable[[Rollouts, Policy], float]
    needs: Literal["returns", "weights", "steps"]

    def __call__(self, rollouts: Rollouts, policy: Policy) -> float:
        return self.function(rollouts, policy)


ESTIMATORS: dict[str, Estimator] = {
    e.name: e
    for e in (
        Estimator("mc", lambda rollouts, policy: monte_carlo(rollouts), "returns"),
        Estimator("ois", lambda rollouts, policy: ordinary_importance_sampling(rollouts), "weights"),
        Estimator("wis", lambda rollouts, policy: weighted_importance_sampling(rollouts), "weights"),
        Estimator("wis+mc", lambda rollouts, policy: weighted_then_monte_carlo(rollouts), "weights"),
    )
}

__all__ = ["ESTIMATORS", "Estimator"]
