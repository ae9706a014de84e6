"""Trials put together, against numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.domain import Truth
from evenroll.study.experiments import QUICK, targets
from evenroll.study.results import on_policy_mse
from tests.study.invented import exact


def test_theory_of_on_policy_sampling_by_hand() -> None:
    """A return of mean 3 and variance 18, episodes of 5 steps: 10 steps are 2 episodes, so 18 / (2 · 9) = 1."""
    truth = Truth(value=3.0, value_se=0.0, mean_length=5.0, variance=18.0)
    assert on_policy_mse(truth, np.array([0.0, 5.0, 10.0, 100.0])).tolist() == [np.inf, 2.0, 1.0, 0.1]
    assert on_policy_mse(Truth(-3.0, 0.0, 5.0, 18.0), np.array([10.0])).tolist() == [1.0]


def test_ratios_of_a_sweep() -> None:
    target = targets(QUICK)["fig12"]
    sweep = target.panels[0].sweeps[0]
    found = exact(target, lambda work: 0.03 if work.collect.startswith("ros") else 0.01).ratios(sweep)
    assert found.x.tolist() == list(sweep.x)
    assert found.ratio == pytest.approx(3.0)
    assert found.se == pytest.approx(3.0 * np.sqrt(2) * 0.5 / 7)
