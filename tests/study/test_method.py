"""Methods: written, taken apart and put together in one place; objects beside names; what cannot be read is refused."""

from __future__ import annotations

from typing import Any

import pytest

from evenroll.collection.rollouts import Rollouts
from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.estimators import Estimator, get_estimator
from evenroll.policies import Policy
from evenroll.samplers import ROS, OnPolicy
from evenroll.study import compare
from evenroll.study.method import Method, MethodSpec, get_method

WRITTEN = {
    "os": MethodSpec("os"),
    "os/mc": MethodSpec("os", "mc"),
    "init+os/wis+mc": MethodSpec("os", "wis+mc", initial=True),
    "init+ros:alpha=10": MethodSpec("ros:alpha=10", initial=True),
    "bpg:batch=10,step_size=0.01/ois": MethodSpec("bpg:batch=10,step_size=0.01", "ois"),
    "init+a.b:C:x=1/d:e": MethodSpec("a.b:C:x=1", "d:e", initial=True),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_what_is_written_is_read_and_written_again(text: str) -> None:
    assert MethodSpec.parse(text) == WRITTEN[text]
    assert str(WRITTEN[text]) == text


def test_the_parts_of_a_specification() -> None:
    spec = MethodSpec.parse("init+ros:alpha=10,beta=2/mc")
    assert (spec.name, spec.parameters, spec.collect) == ("ros", "alpha=10,beta=2", "init+ros:alpha=10,beta=2")
    spec = MethodSpec.parse("mine:Mine:strength=1/mc")
    assert (spec.name, spec.parameters, spec.collect) == ("mine:Mine", "strength=1", "mine:Mine:strength=1")


def test_a_method_prints_what_gives_it_again() -> None:
    grid = get_domain("gridworld")
    for text in ("os/mc", "ros:alpha=1000/mc", "init+ros:alpha=10000/mc", "bpg:batch=10,step_size=0.01/ois", "revar/fqe"):
        method = get_method(text, grid)
        assert str(method) == text
        assert get_method(str(method), grid) == method


def test_what_is_left_out_takes_the_papers_value() -> None:
    grid = get_domain("gridworld")
    assert str(get_method("ros", grid)) == "ros:alpha=1000/mc"
    assert str(get_method("init+ros", grid)) == "init+ros:alpha=10000/mc"
    assert str(get_method("bpg", grid)) == "bpg:batch=10,step_size=0.01/ois"
    assert get_method(ROS, grid) == get_method("ros", grid)


def largest(rollouts: Rollouts, policy: Policy) -> float:
    return float(rollouts.returns.max())


def test_objects_beside_names() -> None:
    grid, mc = get_domain("gridworld"), get_estimator("mc")
    wanted = Method(ROS(10.0), mc)
    for spec in (wanted, ROS(10.0), (ROS(10.0), mc), (ROS(10.0), "mc"), ("ros:alpha=10", mc), "ros:alpha=10"):
        assert get_method(spec, grid) == wanted
    assert get_method(("init+ros:alpha=10", mc), grid) == Method(ROS(10.0), mc, initial=True)
    assert get_method((OnPolicy(), largest), grid) == Method(OnPolicy(), Estimator("largest", largest, "steps"))


@pytest.mark.parametrize(
    "bad",
    [
        "rso", "ros:alpha=-1", "ros:alpha=nan", "ros:beta=1", "ros:alpha=x", "ros:alpha", "off:delta=2", "bpg:batch=0",
        "bpg:batch=1.5", "ros/mcc", "ros/", "os/wis+mc", "ros:alpha=1,alpha=2", "os/mc/mc", "no_such_module:Mine",
        "evenroll.samplers.ros:choose", "os/evenroll.samplers:ROS", ("os/mc", "mc"), ("os", "mc", "wis"), ("os", ROS(1.0)),
        3, (3, "mc"), ("os", "wis+mc"), Method(OnPolicy(), get_estimator("wis+mc")),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_read_is_refused(bad: Any) -> None:
    with pytest.raises(SpecError):
        get_method(bad, get_domain("gridworld"))


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
