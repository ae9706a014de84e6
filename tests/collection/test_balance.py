"""The guard tells a behaviour that runs away from one that does not."""

from __future__ import annotations

import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.samplers.table import get_sampler


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "spec", "alarm"),
    [("bandit", "ros", False), ("gridworld", "ros", False), ("cartpole", "ros", False),
     ("cartpole-continuous", "ros", False),
     ("cartpole", "ros:alpha=1000", True), ("cartpole-continuous", "ros:alpha=100", True), ("cartpole", "auto", False)],
)  # fmt: skip
def test_the_guard_tells_who_runs_away(name: str, spec: str, alarm: bool, base_seed: int) -> None:
    """Most of five runs. The quantity that must exceed 1 for an alarm was in 300 runs 1.4 or more where it must and 0.45 or
    less where it must not: a single run is wrong with probability below 1e-2. P(false) ≤ 1e-5, three of five wrong.
    Catches a guard that sleeps, and one that always barks."""
    domain = get_domain(name)
    right = 0
    for run in range(5):
        driver = Driver(
            domain.policy(), get_sampler(spec, domain.paper), (base_seed, run), gamma=domain.gamma, horizon=domain.horizon
        )
        driver.run(domain.environment(None), episodes=100)
        assert driver.divergence.largest > 0.0
        right += driver.divergence.runs_away is alarm
    assert right >= 3
