"""The luck of the start: learnt from other episodes, averaged over starts that are known, and 0 where nothing predicts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.estimators.score_regression import regress, score_regression
from evenroll.estimators.start_part import Starts, starts_of
from tests.helpers import trial


def starts(rng: np.random.Generator, n: int, resets: int, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(n, d)), rng.normal(size=(resets, d))


def test_weights_are_ridge_regression_and_the_mean_is_that_of_all_starts() -> None:
    """Against the textbook, for the set and the ridge that were chosen: the linear set, the smallest ridge."""
    rng = np.random.default_rng(0)
    own, more = starts(rng, 40, 500, 1)
    values = 3.0 + 2.0 * own[:, 0] + 0.01 * rng.normal(size=40)
    among = np.arange(40) % 4 != 0
    learnt = Starts(own, more).learn(values, among)
    assert learnt is not None
    spread = np.concatenate([own, more]).std()
    x = own[among, 0] / spread
    slope = ((x - x.mean()) @ values[among]) / ((x - x.mean()) @ (x - x.mean()) + 1e-3 * among.sum()) / spread
    mean = (own.sum() + more.sum()) / 540
    np.testing.assert_allclose(learnt.part, slope * (own[:, 0] - mean), rtol=1e-6)
    assert learnt.noise == pytest.approx(slope**2 * more.var(ddof=1) / 540)


def test_products_are_used_where_they_explain() -> None:
    rng = np.random.default_rng(1)
    own, more = starts(rng, 100, 2000, 2)
    values = own[:, 0] * own[:, 1]
    learnt = Starts(own, more).learn(values, np.ones(100, dtype=bool))
    assert learnt is not None
    assert np.corrcoef(learnt.part, values)[0, 1] > 0.99


def test_few_episodes_carry_the_products_of_what_varies_most() -> None:
    """A goal in a plane, seen twice, beside six joints that hardly matter: 65 products are too many for 60 episodes, but the
    distance of the goal is found."""
    rng = np.random.default_rng(5)
    goal, joints = rng.uniform(-1.0, 1.0, (1060, 2)), rng.normal(size=(1060, 6))
    seen = np.concatenate([goal, joints, 0.1 * joints[:, :2] - goal], axis=1)
    values = (np.square(goal[:60] - 0.3)).sum(axis=1)
    learnt = Starts(seen[:60], seen[60:]).learn(values, np.ones(60, dtype=bool))
    assert learnt is not None
    assert np.corrcoef(learnt.part, values)[0, 1] ** 2 > 0.9  # without products 0.6


def test_where_nothing_predicts_there_is_no_part() -> None:
    """Features that have nothing to do with the values do worse on other episodes than the mean does."""
    rng = np.random.default_rng(2)
    own, more = starts(rng, 60, 100, 8)
    none = [Starts(own, more).learn(rng.normal(size=60), np.ones(60, dtype=bool)) is None for _ in range(40)]
    assert sum(none) >= 20


def test_states_are_told_apart_by_their_number() -> None:
    rng = np.random.default_rng(3)
    own, more = rng.integers(0, 4, (80, 1)).astype(float), rng.integers(0, 4, (900, 1)).astype(float)
    worth = np.array([5.0, -1.0, 7.0, 0.0])
    learnt = Starts(own, more).learn(worth[own[:, 0].astype(int)], np.ones(80, dtype=bool))
    assert learnt is not None
    all_starts = np.concatenate([own, more])[:, 0].astype(int)
    np.testing.assert_allclose(learnt.part, worth[own[:, 0].astype(int)] - worth[all_starts].mean(), atol=0.1)


def test_few_episodes_carry_few_features() -> None:
    rng = np.random.default_rng(4)
    own, more = starts(rng, 12, 200, 10)
    assert Starts(own, more).learn(own.sum(axis=1), np.ones(12, dtype=bool)) is None
    critic = (own.sum(axis=1), more.sum(axis=1))
    assert Starts(own, more, critic).learn(own.sum(axis=1), np.ones(12, dtype=bool)) is not None


def test_without_resets_or_observations_there_are_no_starts() -> None:
    data = trial("cartpole", episodes=20)
    assert starts_of(data) is None
    resets = get_domain("cartpole").environment(None).starts(np.random.default_rng(0), 50)
    assert starts_of(replace(data, resets=resets)) is not None
    assert starts_of(replace(data, resets=resets, observations=None)) is None
    assert starts_of(replace(trial("gridworld", episodes=20), resets=np.zeros((50, 1)))) is None  # one start only


@pytest.mark.statistical
def test_the_error_is_what_theory_says(base_seed: int) -> None:
    """Values 10 + 3 s₀ + noise of spread 1 from 40 episodes, 400 further resets, 400 runs.

    The squared error of the mean is (9 + 1)/40 = 0.25, that of the corrected mean 1/40 + 9/440 + what learning two numbers
    costs, about 1/40 · 2/40: 0.0467 (six runs: 0.0465 ± 0.0021). P(false) ≤ 1e-4: 0.06 is 4 standard deviations (√(2/400)
    of it) above that. Catches a correction that forgets the resets, or leaves a tenth of the start's noise. The squared
    error relative to the one reported was 0.99 ± 0.04 in six runs; 0.35 is eight of these deviations.
    """
    rng = np.random.default_rng(base_seed)
    errors, reported = [], []
    for _ in range(400):
        own, more = starts(rng, 40, 400, 1)
        fit = regress(10.0 + 3.0 * own[:, 0] + rng.normal(size=40), [], Starts(own, more))
        errors.append(fit.value - 10.0)
        reported.append(fit.error**2)
    found = float(np.mean(np.square(errors)))
    assert found < 0.06
    assert found / np.mean(reported) == pytest.approx(1.0, abs=0.35)


def test_the_shares_of_noise_are_told() -> None:
    rng = np.random.default_rng(5)
    own, more = starts(rng, 400, 4000, 1)
    fit = regress(2.0 * own[:, 0] + rng.normal(size=400), [], Starts(own, more))
    assert fit.starts is not None
    assert abs(fit.starts.value - 0.8) < 4.0 * fit.starts.error < 0.2
    assert fit.actions.value == 0.0


def test_a_policy_without_known_probabilities_has_its_starts_only() -> None:
    data = replace(
        trial("cartpole", episodes=30), resets=get_domain("cartpole").environment(None).starts(np.random.default_rng(0), 60)
    )
    fit = score_regression(data, None)
    assert fit.actions.value == 0.0
    assert fit.starts is not None
