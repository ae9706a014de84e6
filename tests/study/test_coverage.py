"""Coverage studies do not depend on workers, and say what was measured."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.domains.domain import Truth
from evenroll.errors import NoEstimate, SpecError
from evenroll.study.coverage import _summary, coverage
from evenroll.study.coverage_runs import COLUMNS


def test_coverage_does_not_depend_on_workers():
    results = [coverage("cartpole", "ros/score", episodes=40, repeats=6, workers=w).to_json() for w in (1, 2)]
    assert results[0] == results[1]


def test_the_summary_is_what_its_words_say():
    """Four runs of 10 episodes, true value 1 ± 0.1, variance 10: estimates 0, 2, 1, 1 with half-widths 0.5, 1.5, 1, none."""
    columns = {
        "estimate": [0.0, 2.0, 1.0, 1.0], "low": [-0.5, 0.5, 0.0, np.nan], "high": [0.5, 3.5, 2.0, np.nan],
        "iid_half": [2.0] * 4, "fallback": [0, 0, 1, 0], "exact": [0] * 4, "episodes": [10] * 4, "variance": [10.0] * 4,
        "steps": [100] * 4,
    }  # fmt: skip
    rows = np.array([columns[name] for name in COLUMNS], dtype=float).T
    found = _summary(rows, "here", "auto/mc", "mc", Truth(1.0, 0.1, 10.0, 10.0), 0.95)
    assert found.coverage == pytest.approx(2 / 3)
    assert (found.without, found.fallback, found.half_width, found.episodes) == (0.25, 0.25, 1.0, 10.0)
    spread = np.std([0, 2, 1, 1], ddof=1)
    assert found.oracle_ratio == pytest.approx(1.0 / (1.96 * spread))
    assert found.ratio == pytest.approx(0.5 - 0.01)  # mean square 0.5, without the error of the true value; Var/n is 1
    assert found.worth == pytest.approx(1 / 0.49)
    assert found.says == pytest.approx(np.median([1.96**2 * 10 / h**2 / 10 for h in (0.5, 1.5, 1.0)]))
    assert (found.bias, found.bias_se) == pytest.approx((0.0, np.sqrt(0.25 + (0.1 / spread) ** 2)))


def test_what_is_known_exactly_is_worth_no_number_of_episodes() -> None:
    """Intervals of rounding errors only were told as 3e+14 episodes an episode."""
    row = [1.0, 1.0 - 1e-12, 1.0 + 1e-12, 1.0, 0.0, 1.0, 10.0, 1.0, 10.0]
    other = [1.1, 0.6, 1.6, 1.0, 0.0, 0.0, 10.0, 1.0, 10.0]
    mostly = _summary(np.array([row, row, other]), "here", "auto/score", "score", Truth(1.0, 0.0, 1.0, 1.0), 0.95)
    assert mostly.says == np.inf
    assert mostly.to_json()["says"] is None
    seldom = _summary(np.array([row, other, other]), "here", "auto/score", "score", Truth(1.0, 0.0, 1.0, 1.0), 0.95)
    assert seldom.says == pytest.approx(1.96**2 / 0.25 / 10)


def test_an_uncertain_true_value_widens_the_interval_of_the_share():
    rows = np.tile([0.0, -1.0, 1.0, 1.0, 0.0, 0.0, 10.0, 1.0, 10.0], (50, 1))
    rows[:, 0] += np.linspace(-0.1, 0.1, 50)
    sure = _summary(rows, "here", "os/mc", "mc", Truth(0.9, 0.0, 1.0, 1.0), 0.95)
    unsure = _summary(rows, "here", "os/mc", "mc", Truth(0.9, 0.1, 1.0, 1.0), 0.95)
    assert sure.coverage == unsure.coverage == 1.0
    assert unsure.coverage_low == 0.0 < 0.9 < sure.coverage_low


def test_a_table_of_an_environment():
    """Sizes and estimates in order, the truth from a run of its own, the same again for the same seed."""
    env = gym.make("CartPole-v1", max_episode_steps=20)
    settings = {"gamma": 0.99, "episodes": [8, 12], "repeats": 4, "truth_episodes": 40}
    told: list[tuple[int, int]] = []
    rows = evenroll.coverage_table(env, lambda obs: np.array([0.5, 0.5]), progress=lambda *now: told.append(now), **settings)
    assert [(row.episodes, row.estimator) for row in rows] == [(8, "score"), (8, "mc"), (12, "score"), (12, "mc")]
    assert told[-1] == (40 + 4 * 12, 40 + 4 * 12)
    assert rows[0].domain == "CartPole-v1"
    assert rows[0].value_se == pytest.approx(np.sqrt(rows[0].variance / 40))
    assert all(row.coverage_low <= row.coverage <= row.coverage_high for row in rows)
    again = evenroll.coverage_table(env, lambda obs: np.array([0.5, 0.5]), **settings)
    assert [row.to_json() for row in rows] == [row.to_json() for row in again]


def test_what_cannot_be_measured_is_refused():
    flat = np.array([0.5, 0.5])
    for message, wrong in {
        "needs a policy": lambda: evenroll.coverage_table("CartPole-v1"),
        "init\\+ samplers": lambda: evenroll.coverage_table("CartPole-v1", lambda obs: flat, sampler="init+auto"),
        "at least 3 episodes": lambda: evenroll.coverage_table("bandit", episodes=2),
        "give one number": lambda: evenroll.coverage_table("bandit", episodes=[20, 40], half_width=1.0),
        "single environment": lambda: evenroll.coverage_table(gym.make_vec("CartPole-v1", 2), lambda obs: flat),
    }.items():
        with pytest.raises(SpecError, match=message):
            wrong()
    with pytest.raises(NoEstimate, match=r"bpg:.*/mc has no interval"):
        coverage("bandit", "bpg/mc", episodes=20, repeats=3, workers=1)
