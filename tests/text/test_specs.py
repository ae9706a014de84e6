"""Reading `key=value,…`, and answering names that are nearly right."""

from __future__ import annotations

import pytest

from evenroll.errors import SpecError
from evenroll.text.specs import closest, parse_parameters, share


def test_parameters_by_name() -> None:
    assert parse_parameters("ros", "") == {}
    assert parse_parameters("bpg:…", " batch=10, step_size = 1e-3") == {"batch": "10", "step_size": "1e-3"}


@pytest.mark.parametrize(
    ("text", "message"),
    [("alpha", "expected key=value"), ("=1", "expected key=value"), ("a=", "expected key=value"), ("a=1,a=2", "given twice"),
     ("a=1,,b=2", "expected key=value")],
)  # fmt: skip
def test_what_is_not_key_and_value_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        parse_parameters("the whole specification", text)
    assert str(caught.value).startswith("the whole specification: ")


def test_the_nearest_name_is_suggested() -> None:
    assert closest("gridwrld", ["bandit", "gridworld"]) == " (did you mean gridworld?)"
    assert closest("chess", ["bandit", "gridworld"]) == ""


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), None, "0.5", True, [0.5, 0.5], object()])
def test_a_share_lies_between_0_and_1(bad: object) -> None:
    assert [share("gamma", x) for x in (0, 1, 0.25)] == [0.0, 1.0, 0.25]
    with pytest.raises(SpecError, match="gamma must"):
        share("gamma", bad)
