"""Sources of episodes: going on in parts is the same as all at once, wherever the episodes come from."""

from __future__ import annotations

import signal
import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import EnvironmentFault, SpecError
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
    with pytest.raises(SpecError, match=r"the policy is deterministic.*its Gymnasium environment does it"):
        source_of("gridworld", certain, "auto", **SETTINGS)


def test_interrupted_anywhere_a_domain_loses_nothing() -> None:
    """A signal comes some fifty times wherever the program happens to be; the data is that of a run without any."""
    policy = get_domain("cartpole").policy()
    first, whole, struck = (source_of("cartpole", policy, "auto", **SETTINGS) for _ in range(3))
    list(first.collect(30, None, at_once=True))  # compiles
    started = time.perf_counter()
    list(whole.collect(3000, None, at_once=True))
    longest = (time.perf_counter() - started) / 25

    def ring(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before, rng, interrupts = signal.signal(signal.SIGALRM, ring), np.random.default_rng(0), 0
    try:
        while struck.episodes < 3000:
            try:
                signal.setitimer(signal.ITIMER_REAL, float(rng.uniform(longest / 50, longest)))
                list(struck.collect(3000, None, at_once=bool(interrupts % 2)))
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
                so_far = struck.rollouts(unfinished=False)
                np.testing.assert_array_equal(so_far.returns, whole.rollouts().returns[: so_far.episodes])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts > 10
    for column in ("returns", "ends", "actions", "observations", "log_b"):
        np.testing.assert_array_equal(getattr(struck.rollouts(), column), getattr(whole.rollouts(), column))


def test_compiled_calls_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C waits for the end of one. They are timed over a run of seconds, at once as well as in parts."""
    source = source_of("cartpole", get_domain("cartpole").policy(), "auto", **SETTINGS)
    list(source.collect(100, None, at_once=True))  # compiled
    advance, took = Driver._advance, []

    def timed(self: Driver, *arguments: Any) -> int:
        started = time.process_time()
        status = advance(self, *arguments)
        took.append(time.process_time() - started)
        return status

    monkeypatch.setattr(Driver, "_advance", timed)
    list(source.collect(30_000, None, at_once=True))
    assert sum(took) > 0.5
    assert max(took) < 0.5


def test_a_fault_of_a_domain_keeps_what_had_finished() -> None:
    source = source_of("gridworld", get_domain("gridworld").policy(), "os", **SETTINGS)
    assert isinstance(source, DomainSource)
    list(source.collect(20, None, at_once=True))
    source.environment.params[65 + 4 * 1 + 1] = np.inf  # the reward from (0,1) down
    with pytest.raises(EnvironmentFault, match="reward inf") as told:
        list(source.collect(10_000, None, at_once=True))
    assert told.value.rollouts.episodes >= 20
    assert told.value.rollouts.unfinished == 0
    assert np.isfinite(told.value.rollouts.returns).all()


def test_initial_data_of_a_domain_is_discounted_as_the_domain_is() -> None:
    """A dictionary of columns has no discount of its own: the domain's is taken, 0.99."""
    columns = {"episode": [0, 0], "observation": [[0.0] * 4] * 2, "action": [0, 1], "reward": [1.0, 1.0]}
    source = source_of("cartpole", None, "auto", **{**SETTINGS, "initial": columns})
    assert source.rollouts().returns.tolist() == pytest.approx([1.99])
    assert source.rollouts().initial_episodes == 1
