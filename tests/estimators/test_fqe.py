"""Fitted Q evaluation: loops, horizons, linear and quadratic fits against their solution."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError, NoEstimate
from evenroll.estimators.fqe import fitted_q_evaluation, steps_of
from evenroll.estimators.table import ESTIMATORS
from evenroll.policies import MLP, TabularSoftmax
from tests.helpers import weighted_data
from tests.small_mdps import SmallMDP, small_mdp


def test_fqe_without_horizon_solves_the_loop() -> None:
    """s stays under action 0 and ends under action 1: V = π₀(r₀ + γV) + π₁r₁."""
    data = Rollouts(
        0.9, 3, np.array([2.0 + 0.9 * 5.0, 5.0]), np.array([2, 3]), np.array([True, True]),
        observations=np.zeros((3, 1)), actions=np.array([[0.0], [1.0], [1.0]]), rewards=np.array([2.0, 5.0, 5.0]),
    )  # fmt: skip
    policy = TabularSoftmax.from_probabilities([[0.3, 0.7]])
    assert fitted_q_evaluation(data, policy) == pytest.approx((0.3 * 2 + 0.7 * 5) / (1 - 0.9 * 0.3), abs=1e-12)
    never = TabularSoftmax.from_probabilities([[1.0, 0.0]])
    with pytest.raises(NoEstimate, match="never leaves"):
        fitted_q_evaluation(dataclasses.replace(data, gamma=1.0), never)


def test_steps_at_the_horizon_say_nothing_about_termination() -> None:
    """Horizon 2: trajectories (end at once), (go on, end at the horizon), (go on, truncated)."""
    data = Rollouts(1.0, 5, np.ones(3), np.array([1, 3, 5]), np.array([True, True, False]), horizon=2)
    steps = steps_of(data)
    assert (list(steps.going), list(steps.over), list(steps.times)) == ([1, 3], [0], [0, 0, 1, 0, 1])
    assert steps_of(dataclasses.replace(data, horizon=None)).horizon == 2  # read off the truncated one
    with pytest.raises(DataError, match="more than the horizon"):
        steps_of(dataclasses.replace(data, horizon=1))


def one_hot(mdp: SmallMDP, data: Rollouts) -> tuple[MLP, Rollouts]:
    """The same table as a linear network of one-hot observations."""
    n = len(mdp.rewards)
    with np.errstate(divide="ignore"):
        logits = np.maximum(np.log(mdp.policy.table), -40.0)
    policy = MLP([], logits.T, np.zeros(2), dtype=np.float64)
    return policy, dataclasses.replace(data, observations=np.eye(n)[data.column("observations")[:, 0].astype(int)])


@pytest.mark.parametrize("seed", range(8))
def test_linear_fits_on_one_hot_features_equal_the_table(seed: int) -> None:
    mdp = small_mdp(seed, horizon=3)
    data = mdp.population()
    policy, vectors = one_hot(mdp, data)
    for name in ("fqe", "dr", "wdr", "ris", "wris"):
        assert ESTIMATORS[name](vectors, policy) == pytest.approx(ESTIMATORS[name](data, mdp.policy), abs=2e-3), name


def test_gaussian_fqe_integrates_a_quadratic_reward_exactly() -> None:
    """r = 3 + 2a + a², one state, horizon 2: V = (1 + γ)(3 + 2μ + μ² + σ²)."""
    policy = MLP([], [[0.0], [0.0]], [0.4, 0.2], head="gaussian", mean="identity", dtype=np.float64)
    mu, sigma = 0.4, math.log1p(math.exp(0.2))
    a = np.random.default_rng(0).normal(size=400)
    data = Rollouts(
        0.9, 400, np.zeros(200), np.arange(2, 402, 2), np.zeros(200, bool), observations=np.ones((400, 1)),
        actions=a[:, None], rewards=3 + 2 * a + a**2, horizon=2,
    )  # fmt: skip
    assert fitted_q_evaluation(data, policy) == pytest.approx(1.9 * (3 + 2 * mu + mu**2 + sigma**2), rel=1e-4)


def test_fqe_says_when_the_data_has_no_action_of_the_policy() -> None:
    data = weighted_data([0.0], [0.0], [1])  # only action 0
    with pytest.raises(NoEstimate, match="no action the evaluation policy"):
        fitted_q_evaluation(data, TabularSoftmax.from_probabilities([[0.0, 1.0]]))
