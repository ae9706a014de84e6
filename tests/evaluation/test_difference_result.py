"""What a difference says of itself: its verdict, with as many digits as its interval, or why there is none."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import evenroll
from evenroll.evaluation.difference_result import Difference
from evenroll.evaluation.result import Evaluation


@pytest.fixture(scope="module")
def one() -> Evaluation:
    return dataclasses.replace(
        evenroll.evaluate("bandit", sampler="os", episodes=20), warnings=("too warm",), value=12345.678
    )


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.01, 0.03, "The first policy is better: 12345.678 against 12345.658, a difference of +0.01 … +0.03."),
        (-0.03, -0.01, "The second policy is better: 12345.678 against 12345.658, a difference of -0.03 … -0.01."),
        (0.0, 0.04, "Which is better cannot be told yet: 12345.678 against 12345.658, a difference of +0 … +0.04."),
        (-0.04, 0.0, "Which is better cannot be told yet: 12345.678 against 12345.658, a difference of -0.04 … +0."),
        (-4.0, 4.0, "Which is better cannot be told yet: 12345.7 against 12345.7, a difference of -4 … +4."),
    ],
)
def test_the_verdict_is_that_of_the_interval(one: Evaluation, low: float, high: float, words: str) -> None:
    """0 at an end of the interval is no verdict. Numbers are as precise as the interval."""
    other = dataclasses.replace(one, value=12345.658, warnings=("too warm", "too cold"))
    found = Difference((low + high) / 2, low, high, 0.9, None, None, None, one, other)
    assert found.in_words() == f"{words} Warning: too warm. Warning: too cold."
    assert found.half_width == (high - low) / 2
    assert " Note: few. Warning" in dataclasses.replace(found, note="few").in_words()
    assert "(90 %), 20 episodes each" in str(found)
    assert str(dataclasses.replace(found, interrupted=True)).endswith("each, interrupted")


def test_without_an_interval_there_is_no_verdict(one: Evaluation) -> None:
    found = Difference(3.0, None, None, 0.95, "all were equal", None, None, one, one)
    assert found.in_words().startswith("Which is better cannot be told: 12346 against 12346; no interval: all were equal.")
    assert str(found) == "+3 (no interval), 20 episodes each"
    assert found.half_width is None
    told = json.loads(json.dumps(dataclasses.replace(found, alone=math.inf).to_json(), allow_nan=False))
    assert (told["alone"], told["value"], told["first"]["value"]) == (None, 3.0, one.value)


def test_what_was_decided_is_said_in_words(one: Evaluation) -> None:
    found = Difference(1.5, 1.0, 2.0, 0.95, None, None, None, one, one, verdict="first", margin=0.5, most=80, fixed_size=33)
    assert found.pairs == 20
    assert found.in_short() == "The first policy is better by more than 0.5"
    assert "That took 20 pairs of at most 80." in found.worth()
    assert "would need about 33" in found.worth()
    words = {"second": "The second policy is better by more than 0.5", "alike": "They differ by less than 0.5",
             "not worse": "The first policy is not worse than the second by more than 0.5",
             "worse": "The first policy is worse than the second by more than 0.5"}  # fmt: skip
    for verdict, said in words.items():
        assert dataclasses.replace(found, verdict=verdict).in_short() == said
    open_ = dataclasses.replace(found, verdict="undecided", undecided="80 pairs were not enough")
    assert open_.in_short() == "Undecided (80 pairs were not enough)"
    assert "would need" not in open_.worth()


def test_pairs_of_the_data(one: Evaluation) -> None:
    found = Difference(0.0, None, None, 0.95, "equal", None, None, one, one)
    assert np.array_equal(found.gaps(), np.zeros(20))
    assert Difference.from_json(found.to_json()).gaps() is None
