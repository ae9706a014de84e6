"""Estimators by name, each with a record that says what must be kept for it. Users name their own `module:function`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.engine import border
from evenroll.errors import DataError, SpecError
from evenroll.estimators.behavior_fit import with_fit
from evenroll.estimators.doubly_robust import doubly_robust, weighted_doubly_robust
from evenroll.estimators.fqe import fitted_q_evaluation, with_q
from evenroll.estimators.fqe_net import SMALL, fitted_q_network
from evenroll.estimators.importance import (
    ordinary_importance_sampling,
    trajectory_log_weights,
    weighted_importance_sampling,
    weighted_then_monte_carlo,
)
from evenroll.estimators.monte_carlo import monte_carlo
from evenroll.estimators.per_decision import per_decision_importance_sampling
from evenroll.estimators.regression import (
    fitted_log_weights,
    regression_importance_sampling,
    weighted_regression_importance_sampling,
)
from evenroll.estimators.score import score
from evenroll.policies import External, Policy
from evenroll.text.names import is_named, named
from evenroll.text.specs import check_name, closest


@dataclass(frozen=True)
class Estimator:
    """An estimator with a name, and what it needs.

    function     computes the estimate from (rollouts, policy)
    needs        what must be recorded: returns, weights or every step
    log_weights  the trajectory weights it uses, for effective sample size and largest weight; None if it uses none
    features     whether it works on the policy's features, which are worth computing once for all prefixes of a trial
    fits         returns the rollouts with the fit that it needs (π̂ or Q̂), so that several estimators share one fit
    """

    name: str
    function: Callable[[Rollouts, Policy], float]
    needs: Literal["returns", "weights", "steps"]
    log_weights: Callable[[Rollouts, Policy], np.ndarray] | None = None
    features: bool = False
    fits: Callable[[Rollouts, Policy], Rollouts] | None = None

    def __call__(self, rollouts: Rollouts, policy: Policy | None) -> float:
        """The estimate. Where the policy's probabilities are not known, policy is None, and only mc and score are asked."""
        estimate: Any = self.function(self._checked(rollouts, policy), policy)  # type: ignore[arg-type]
        try:
            return float(estimate)
        except (TypeError, ValueError):
            raise SpecError(f"{self.name} must give a number, not {estimate!r:.60}") from None

    def _checked(self, rollouts: Rollouts, policy: Policy | None) -> Rollouts:
        """The data in sound types and shapes, with states and actions of this policy where the estimator looks at steps."""
        data = rollouts.sound()
        if self.needs == "steps" and policy is not None:
            # What another network observes, we do not see.
            seen = None if isinstance(policy, External) else data.observations
            one = () if policy.n_actions is None else (policy.n_actions,)
            for what, rows, width, counts in (
                ("state", seen, policy.obs_dim, () if policy.n_states is None else (policy.n_states,)),
                ("action", data.actions, policy.action_dim, policy.choices or one),
                ("feature vector", data.features, policy.feature_width, ()),
                ("vector of outputs", data.outputs, int(policy.sizes.outputs), ()),
            ):
                if rows is not None and rows.shape[1] != width:
                    raise DataError(f"a {what} of the data has {rows.shape[1]} numbers, the policy's have {width}")
                if rows is not None:
                    border.places(f"the data has a {what}", rows, counts, DataError)
        return data


def _recorded(rollouts: Rollouts, policy: Policy) -> np.ndarray:
    return trajectory_log_weights(rollouts)


# These functions have names, because an estimator travels to other processes and a lambda does not pickle.


def _mc(rollouts: Rollouts, policy: Policy) -> float:
    return monte_carlo(rollouts)


def _ois(rollouts: Rollouts, policy: Policy) -> float:
    return ordinary_importance_sampling(rollouts)


def _wis(rollouts: Rollouts, policy: Policy) -> float:
    return weighted_importance_sampling(rollouts)


def _wis_then_mc(rollouts: Rollouts, policy: Policy) -> float:
    return weighted_then_monte_carlo(rollouts)


def _pdis(rollouts: Rollouts, policy: Policy) -> float:
    return per_decision_importance_sampling(rollouts)


def _fqe_net_small(rollouts: Rollouts, policy: Policy) -> float:
    return fitted_q_network(rollouts, policy, SMALL)


ESTIMATORS: dict[str, Estimator] = {
    e.name: e
    for e in (
        Estimator("mc", _mc, "returns"),
        Estimator("ois", _ois, "weights", _recorded),
        Estimator("wis", _wis, "weights", _recorded),
        Estimator("wis+mc", _wis_then_mc, "weights", _recorded),
        Estimator("pdis", _pdis, "steps", _recorded),
        Estimator("ris", regression_importance_sampling, "steps", fitted_log_weights, features=True, fits=with_fit),
        Estimator(
            "wris", weighted_regression_importance_sampling, "steps", fitted_log_weights, features=True, fits=with_fit
        ),
        Estimator("fqe", fitted_q_evaluation, "steps", features=True, fits=with_q),
        Estimator("fqe-net", fitted_q_network, "steps", features=True),
        Estimator("fqe-net-small", _fqe_net_small, "steps", features=True),
        Estimator("dr", doubly_robust, "steps", _recorded, features=True, fits=with_q),
        Estimator("wdr", weighted_doubly_robust, "steps", _recorded, features=True, fits=with_q),
        Estimator("score", score, "steps"),
    )
}


EstimatorLike = str | Estimator | Callable[[Rollouts, Policy], float]  # what `get_estimator` accepts


def get_estimator(spec: EstimatorLike) -> Estimator:
    """An estimator by name, or the object itself, or one made of a function of (rollouts, policy).

    For a plain function every step is kept. A function that needs less says so in a record:
    `Estimator("mine", function, "returns")`.
    """
    estimator: Any = spec
    if isinstance(spec, str):
        if spec not in ESTIMATORS and not is_named(spec):
            names = f"{', '.join(ESTIMATORS)}, or module:function for one of your own"
            raise SpecError(f"unknown estimator {spec!r}{closest(spec, ESTIMATORS)}; known: {names}")
        estimator = ESTIMATORS[spec] if spec in ESTIMATORS else named(spec)
    if not isinstance(estimator, Estimator):
        if not callable(estimator) or isinstance(estimator, type) or not _takes_two(estimator):
            raise SpecError(f"{spec!r} is not an estimator: give a name, an Estimator, or a function of (rollouts, policy)")
        estimator = Estimator(getattr(estimator, "__name__", type(estimator).__name__), estimator, "steps")
    check_name("estimator", estimator.name, ESTIMATORS.get(estimator.name) not in (None, estimator))
    return estimator


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True
