"""What all results can do: be a number, be told to other programs and come back, and stand in a notebook."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from xml.etree import ElementTree

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.errors import DataError
from evenroll.evaluation.result import Quantity


def half(observation: np.ndarray) -> list[float]:
    return [0.5, 0.5]


def upright(observation: np.ndarray) -> list[float]:
    p = 1.0 / (1.0 + math.exp(-5.0 * (observation[2] + observation[3])))
    return [1.0 - p, p]


@pytest.fixture(scope="module")
def found() -> evenroll.Evaluation:
    return evenroll.evaluate("cartpole", episodes=40)


@pytest.fixture(scope="module")
def gap() -> evenroll.Difference:
    return evenroll.difference(gym.make("CartPole-v1"), upright, half, episodes=12)


def test_a_result_is_its_value(found: evenroll.Evaluation, gap: evenroll.Difference) -> None:
    assert float(found) == found.value
    assert float(gap) == gap.value


def test_json_there_and_back(found: evenroll.Evaluation, gap: evenroll.Difference) -> None:
    """As a dictionary and as text; equal in every field but the data, and so in every word."""
    for one in (found, gap, gap.first):
        text = json.dumps(one.to_json())
        assert "rollouts" not in text
        for told in (text, one.to_json(), {**one.to_json(), "of a later version": 1}):
            back = type(one).from_json(told)
            assert back == one
            assert (str(back), back.in_words()) == (str(one), one.in_words())
    assert found.quantities["length"] == type(found).from_json(found.to_json()).quantities["length"]
    assert evenroll.Evaluation.from_json(found.to_json()).rollouts is None


def test_what_is_not_finite_is_told_as_none(found: evenroll.Evaluation) -> None:
    assert replace(found, kl=math.inf, mean=Quantity(1.0, math.nan, 2.0)).to_json()["kl"] is None
    assert replace(found, mean=Quantity(1.0, math.nan, 2.0)).to_json()["mean"]["low"] is None


@pytest.mark.parametrize("told", ["[1, 2]", "{", '{"value": 1}', '{"value": 1, "quantities": 3}'])
def test_other_json_is_refused(told: str) -> None:
    with pytest.raises(DataError, match="not what to_json"):
        evenroll.Evaluation.from_json(told)


def test_a_frame_has_one_row(found: evenroll.Evaluation, gap: evenroll.Difference) -> None:
    pandas = pytest.importorskip("pandas")
    row = found.to_frame()
    assert isinstance(row, pandas.DataFrame)
    assert row.shape[0] == 1
    assert row["value"][0] == found.value
    assert row["quantities_length_value"][0] == found.quantities["length"].value
    assert row["mean_low"][0] == found.mean.low  # type: ignore[union-attr]
    assert gap.to_frame()["second_value"][0] == gap.second.value
    assert len(pandas.concat([row, row])) == 2


def test_the_data_is_at_hand_and_is_not_pickled(found: evenroll.Evaluation, gap: evenroll.Difference) -> None:
    assert found.rollouts is not None
    assert found.rollouts.returns.mean() == pytest.approx(found.mean.value)  # type: ignore[union-attr]
    first, second = gap.rollouts
    assert (first.episodes, second.episodes) == (12, 12)  # type: ignore[union-attr]
    for one in (found, gap):
        again = pickle.loads(pickle.dumps(one))
        assert again == one
        assert again.rollouts in (None, (None, None))


def test_a_notebook_shows_it(found: evenroll.Evaluation, gap: evenroll.Difference) -> None:
    """Well-formed, the words in it, and nothing of an environment's name is taken for a tag."""
    for one in (found, replace(found, remark="<script>x</script>"), gap):
        page = one._repr_html_()
        text = "".join(ElementTree.fromstring(page).itertext())
        assert str(one) in text
        assert one.in_words() in text
        assert "<script>" not in page
    assert "<svg" in found._repr_html_()
