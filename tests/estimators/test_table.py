"""Estimators by name, and estimators made of functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import SpecError
from evenroll.estimators import ESTIMATORS, Estimator, get_estimator
from evenroll.policies import Policy, TabularSoftmax

HERE = __name__


def smallest(rollouts: Rollouts, policy: Policy) -> float:
    return float(rollouts.returns.min())


def mc(rollouts: Rollouts, policy: Policy) -> float:
    return 0.0


def of_three(rollouts: Rollouts, policy: Policy, third: int) -> float:
    return 0.0


def of_one(rollouts: Rollouts) -> float:
    return 0.0


FRUGAL = Estimator("smallest-return", smallest, "returns")
DATA = Rollouts(1.0, 2, np.array([3.0, 4.0]), np.array([1, 2]), np.ones(2, dtype=bool))
POLICY = TabularSoftmax(np.zeros((1, 2)))


def test_a_function_becomes_an_estimator_that_keeps_every_step() -> None:
    for spec in (smallest, f"{HERE}:smallest"):
        assert get_estimator(spec) == Estimator("smallest", smallest, "steps")
        assert get_estimator(spec)(DATA, POLICY) == 3.0
    assert get_estimator(f"{HERE}:FRUGAL") is get_estimator(FRUGAL) is FRUGAL
    assert get_estimator(lambda rollouts, policy: 1).name == "<lambda>"
    assert get_estimator("mc") is ESTIMATORS["mc"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("mcc", "did you mean mc.*module:function"),
        (mc, "'mc' is the name of a built-in estimator"),
        (of_three, "a function of \\(rollouts, policy\\)"),
        (of_one, "a function of \\(rollouts, policy\\)"),
        (Estimator, "is not an estimator"),
        (3, "is not an estimator"),
        (f"{HERE}:DATA", "is not an estimator"),
        (Estimator("a/b", smallest, "returns"), "cannot name the estimator"),
    ],
)
def test_mistakes_are_named(spec: Any, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        get_estimator(spec)


def test_an_estimate_is_a_number() -> None:
    with pytest.raises(SpecError, match="nothing must give a number, not None"):
        Estimator("nothing", lambda rollouts, policy: None, "returns")(DATA, POLICY)  # type: ignore[arg-type, return-value]
