"""What an evaluation found, as a record and in words."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.evaluation.evaluate import evaluate
from evenroll.evaluation.result import Evaluation, Quantity
from evenroll.policies import TabularSoftmax


def test_words():
    text = evaluate("cartpole", estimator="score", episodes=400).in_words()
    assert "95 %" in text
    assert "On-policy sampling would need about" in text
    assert "exact up to rounding" in evaluate("gridworld", estimator="score", episodes=3000).in_words()
    assert isinstance(get_domain("gridworld").policy(), TabularSoftmax)


@pytest.fixture(scope="module")
def found() -> Evaluation:
    return evaluate("gridworld", sampler="os", episodes=50)


def test_the_record_is_json_and_what_is_not_finite_is_absent(found: Evaluation) -> None:
    told = json.loads(json.dumps(dataclasses.replace(found, kl=math.inf).to_json(), allow_nan=False))
    assert told["kl"] is None
    assert (told["value"], told["episodes"]) == (found.value, 50)
    assert found.half_width == (found.high - found.low) / 2


def test_without_an_interval_the_reason_is_given(found: Evaluation) -> None:
    none = dataclasses.replace(found, low=None, high=None, why="too few")
    assert none.half_width is None
    assert none.in_words().endswith("no interval: too few.")
    assert "±" not in str(none)


def test_a_gain_is_mentioned_only_where_there_is_one(found: Evaluation) -> None:
    gain = dataclasses.replace(found, interval="score", exact=False, on_policy_episodes=200.0, remark=None)
    assert "about 200 episodes for this (4×)" in gain.in_words()
    assert "as precise as ~200 on-policy ones" in str(gain)
    none = dataclasses.replace(gain, on_policy_episodes=54.0, remark="little can be gained")
    assert none.in_words().endswith(" Little can be gained.")
    assert "On-policy" not in none.in_words()


def test_quantities_show_two_digits_of_their_half_width() -> None:
    assert str(Quantity(12.3456, 12.0956, 12.5956)) == "12.346 ± 0.25"
    assert str(Quantity(12.3456, None, None)) == "12.346"
