"""Sources of episodes: going on in parts is the same as all at once, wherever the episodes come from."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.evaluation.sources import DomainSource, EnvironmentSource, source_of
from evenroll.policies import TabularSoftmax
from tests.helpers import IDS

SETTINGS: dict[str, Any] = {"gamma": None, "seed": 3, "horizon": None, "initial": None, "deterministic": False}
WHERE = {"domain": "gridworld", "environment": IDS["gridworld"]}


@pytest.mark.parametrize("kind", WHERE)
@pytest.mark.parametrize("unit", ["episodes", "steps"])
def test_in_parts_or_at_once(kind: str, unit: str) -> None:
    """Collected for somebody who shows progress, in two goes, or at once: the same data, and the numbers told end at it."""
    policy, data = get_domain("gridworld").policy(), []
    for goals, at_once in (((60,), True), ((60,), False), ((25, 60), False)):
        source = source_of(WHERE[kind], policy, "auto", **SETTINGS)
        assert isinstance(source, DomainSource if kind == "domain" else EnvironmentSource)
        for goal in goals:
            told = list(
                source.collect(goal if unit == "episodes" else None, goal if unit == "steps" else None, at_once=at_once)
            )
            assert told == sorted(told)
            assert told[-1] == goal == (source.episodes if unit == "episodes" else source.steps)
        data.append(source.rollouts())
        source.close()
    for other in data[1:] if unit == "episodes" or kind == "domain" else data[1:2]:  # an environment begins anew in each go
        for column in ("returns", "ends", "actions", "observations", "log_b"):
            np.testing.assert_array_equal(getattr(other, column), getattr(data[0], column))


def test_a_source_says_who_it_is() -> None:
    policy = get_domain("gridworld").policy()
    domain, environment = (source_of(where, policy, "ros:alpha=5", **SETTINGS) for where in WHERE.values())
    assert (domain.name, environment.name) == ("gridworld", IDS["gridworld"])
    assert domain.described == environment.described == "table of 16 states"
    assert str(domain.sampler) == str(environment.sampler) == "ros:alpha=5"
    assert (domain.episodes, domain.rollouts().episodes) == (0, 0)


def test_what_no_source_can_be_made_of() -> None:
    with pytest.raises(SpecError, match="needs a policy"):
        source_of(gym.make(IDS["gridworld"]), None, "auto", **SETTINGS)
    table = get_domain("gridworld").policy().table
    certain = TabularSoftmax.from_probabilities(np.eye(4)[table.argmax(axis=1)])
    with pytest.raises(SpecError, match="deterministic"):
        source_of("gridworld", certain, "auto", **SETTINGS)
