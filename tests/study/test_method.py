"""Methods by name: what cannot be read is refused."""

from __future__ import annotations

import pytest

from evenroll.errors import SpecError
from evenroll.study import compare


@pytest.mark.parametrize(
    "bad",
    [
        "rso",
        "ros:alpha=-1",
        "ros:alpha=nan",
        "ros:alpha=inf",
        "ros:beta=1",
        "ros:alpha=x",
        "ros:alpha",
        "off:delta=2",
        "bpg:batch=0",
        "bpg:batch=1.5",
        "ros/mcc",
        "ros/",
        "os/wis+mc",
        "ros:alpha=1,alpha=2",
    ],
)
def test_bad_methods_are_refused(bad: str) -> None:
    with pytest.raises(SpecError):
        compare("gridworld", [bad], trials=1, budget=1)
