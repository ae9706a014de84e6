"""Samplers by name: one's own beside the built-in ones, and the text that gives a sampler again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.samplers import ROS, SAMPLERS, OffPolicy, OnPolicy, get_sampler
from evenroll.samplers.table import specification

HERE = __name__


@dataclass(frozen=True)
class Counted(OnPolicy):
    """Of the two types that a specification can give, annotated as classes where this file has no future annotations."""

    count: int = 3
    share: float = 0.5


Counted.__dataclass_fields__["count"].type = int  # as in a file without `from __future__ import annotations`


@dataclass(frozen=True)
class Thief(OnPolicy):
    name = "ros"


@dataclass(frozen=True)
class Slashed(OnPolicy):
    name = "a/b"


READY = Counted(5)


def test_ones_own_by_class_object_and_name() -> None:
    for spec in (Counted, Counted(), f"{HERE}:Counted", f"{HERE}:Counted:count=3", f"{HERE}:Counted:share=0.5"):
        found = get_sampler(spec)
        assert found == Counted(3, 0.5)
        assert isinstance(found.count, int)  # type: ignore[attr-defined]
    assert get_sampler(f"{HERE}:READY") is READY
    assert get_sampler(Counted, {"Counted": {"count": 7.0}}) == Counted(7)


def test_a_class_without_a_name_is_called_by_its_own() -> None:
    assert str(Counted()) == "Counted:count=3,share=0.5"


@pytest.mark.parametrize("spec", ["os", "ros:alpha=10", "bpg:batch=10,step_size=0.1", "auto", "auto:max_kl=0.1"])
def test_the_specification_of_a_built_in_sampler_is_what_it_prints(spec: str) -> None:
    assert specification(get_sampler(spec)) == str(get_sampler(spec)) == spec


def test_the_specification_gives_the_sampler_again() -> None:
    assert specification(READY) == f"{HERE}:Counted:count=5,share=0.5"
    assert get_sampler(specification(READY)) == READY
    for kind in SAMPLERS.values():
        made = get_sampler(kind, {"ros": {"alpha": 1.0}, "ros-episode": {"alpha": 1.0}, "ros-head": {"alpha": 1.0},
                                  "roa": {"rho": 1.0}, "bpg": {"batch": 10, "step_size": 0.01}})  # fmt: skip
        assert get_sampler(specification(made)) == made


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (f"{HERE}:Counted:count=1.5", "count must be a whole number"),
        (f"{HERE}:Counted:cuont=1", "did you mean count"),
        (f"{HERE}:READY:count=1", "has its parameters already"),
        (f"{HERE}:HERE", "is not a sampler"),
        (Thief(), "'ros' is the name of a built-in sampler"),
        (Slashed(), "cannot name the sampler"),
        (3, "is not a sampler"),
        (ROS, "alpha must be given"),
        ("rosy", "did you mean ros.*module:Class"),
    ],
)
def test_mistakes_are_named(spec: Any, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        get_sampler(spec)


@pytest.mark.parametrize(
    "bad",
    [
        "roa:rho=1.5",
        "roa:rho=nan",
        "roa:rho=0.5,candidates=0",
        "ros-episode:alpha=-1",
        "ros-head:alpha=inf",
        "props:clip=-1",
        "props:every=0",
        "odi:first=0",
        "revar:mix=2",
    ],
)
def test_bad_parameters_are_refused(bad: str) -> None:
    with pytest.raises(SpecError):
        get_sampler(bad, get_domain("gridworld").paper)


def test_settings_fill_in_what_the_specification_leaves_out() -> None:
    """What is written counts first, then the domain's settings (those of `init+` where it starts from data), then ours."""
    paper = get_domain("gridworld").paper
    assert get_sampler("ros", paper) == ROS(1000.0)
    assert get_sampler("ros", paper, initial=True) == ROS(10_000.0)
    assert get_sampler("ros:alpha=7", paper) == ROS(7.0)
    assert get_sampler("off") == OffPolicy(0.1)
    assert get_sampler("off:delta=0.3") == OffPolicy(0.3)
    with pytest.raises(SpecError, match="alpha must be given"):
        get_sampler("ros")
    mine = ROS(2.0)
    assert get_sampler(mine, paper) is mine


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_is_made_again_from_what_it_calls_itself(name: str) -> None:
    made = get_sampler(name, get_domain("gridworld").paper)
    assert get_sampler(str(made)) == made
    assert made.name == name
