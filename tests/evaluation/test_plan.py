"""What a pilot says a precision takes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import evenroll
from evenroll.errors import SpecError
from evenroll.evaluation import plan
from evenroll.evaluation.plan import Need, _count, _duration


def test_a_plan_for_the_mean_is_the_textbook_formula():
    """os/mc: n = (t σ/h)², solved for n with its own t, and on-policy needs the same."""
    pilot = evenroll.evaluate("cartpole", sampler="os", estimator="mc", episodes=64)
    found = evenroll.plan("cartpole", half_width=1.0, sampler="os", estimator="mc", pilot=64)
    assert (found.value, found.low, found.high) == (pilot.value, pilot.low, pilot.high)
    deviation = pilot.half_width * 8.0 / 1.9983  # t(63) at 95 %
    assert found.evenroll.episodes == pytest.approx((1.96 * deviation) ** 2, rel=0.01)
    assert found.on_policy.episodes == pytest.approx(found.evenroll.episodes, rel=0.05)
    assert found.evenroll.low < found.evenroll.episodes < found.evenroll.high
    assert found.evenroll.steps == pytest.approx(found.evenroll.episodes * found.steps / 64)
    assert found.stopping > found.evenroll.episodes


def test_balance_makes_the_plan_shorter_and_half_the_width_four_times_longer():
    wide, narrow = (evenroll.plan("cartpole", half_width=w, seed=3) for w in (1.0, 0.5))
    assert wide.evenroll.episodes < 0.6 * wide.on_policy.episodes
    assert narrow.on_policy.episodes == pytest.approx(4 * wide.on_policy.episodes, rel=0.05)
    assert 2.5 < narrow.evenroll.episodes / wide.evenroll.episodes <= 4.05  # what is left falls with more episodes
    assert 0.0 < wide.evenroll.seconds < math.inf
    assert "evenroll needs about" in wide.in_words()
    assert wide.to_json()["evenroll"]["episodes"] == wide.evenroll.episodes


def test_a_share_of_the_value_is_taken_of_the_pilots_value():
    found = evenroll.plan("cartpole", half_width="2%", pilot=16)
    assert found.half_width == pytest.approx(0.02 * found.value)
    assert found.episodes == 16


def test_environments_and_progress():
    told: list[tuple[int, int]] = []
    found = evenroll.plan(
        "CartPole-v1", lambda obs: np.array([0.5, 0.5]), half_width="10%", pilot=8, horizon=30, gamma=0.99,
        progress=lambda *now: told.append(now),
    )  # fmt: skip
    assert found.domain == "CartPole-v1"
    assert told[-1] == (10, 10)


def test_equal_returns_make_no_plan():
    found = evenroll.plan("CartPole-v1", lambda obs: np.array([0.5, 0.5]), half_width=0.1, pilot=8, horizon=3)
    assert found.evenroll is None
    assert "all 8 returns were equal" in found.why
    assert "cannot be told" in found.in_words()
    assert "no plan" in str(found)


def test_what_makes_no_sense_is_refused():
    for message, wrong in {
        "half-width must": lambda: evenroll.plan("bandit", half_width="x"),
        "at least 8 episodes": lambda: evenroll.plan("bandit", half_width=1.0, pilot=5),
        "confidence must": lambda: evenroll.plan("bandit", half_width=1.0, confidence=1.0),
    }.items():
        with pytest.raises(SpecError, match=message):
            wrong()


def test_numbers_in_words():
    assert str(Need(1234.0, 810.4, 1999.0, 1e5, 4000.0)) == "1,200 episodes (810 … 2,000), 67 min"
    assert [_duration(s) for s in (0.31, 80.0, 1e4, 1e6, math.nan)] == ["0.31 s", "80 s", "2.8 h", "12 days", "some time"]
    assert _count(7.4) == "7"


def test_the_error_of_a_variance_does_not_depend_on_where_the_returns_lie():
    """Of 90 zeros and 10 tens m₂ = 9, m₄ = 657: √((657/81 − 1)/100). Of two values as often it is the normal one, √(2/n)."""
    rare = np.array([0.0] * 90 + [10.0] * 10)
    for shift in (0.0, -300.0):
        assert plan._error_of_log_variance(rare + shift) == pytest.approx(math.sqrt((657.0 / 81.0 - 1.0) / 100.0))
        assert plan._error_of_log_variance(np.array([1.0, 3.0] * 50) + shift) == pytest.approx(math.sqrt(0.02))
    assert plan._error_of_log_variance(np.zeros(50)) == pytest.approx(math.sqrt(2.0 / 50.0))
