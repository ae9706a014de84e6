"""Samplers by name: with the paper's settings, with one's own, and what is refused."""

from __future__ import annotations

import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.samplers import ROS, OffPolicy
from evenroll.samplers.table import SAMPLERS, get_sampler


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
