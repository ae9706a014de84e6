"""Diagnosis of data: on-policy, balanced and off-policy are told apart, and data can be repaired."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import pytest

from evenroll.adapters.model import as_model
from evenroll.collection.environments import collect
from evenroll.domains.catalogue import get_domain
from evenroll.evaluation.collector import Collector
from evenroll.evaluation.diagnosis import Diagnosis, diagnose, repair_steps
from tests.helpers import IDS, through_gymnasium


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["cartpole", "gridworld", "cartpole-continuous"])
def test_diagnosis_tells_on_policy_from_off_policy(name: str, base_seed: int) -> None:
    """On-policy the excess is χ² with D ≥ 45 degrees over D; balanced data has less, and a behaviour that is far off has
    more, in the place where it is off. P(false) ≤ 1e-5: on-policy above 2.2 with 5e-6, or below balanced data's (0.03 …
    0.12 in 15 runs) with less; off-policy (cartpole: 4.06 ± 0.35 in 8 runs, the others 36 or more) is 5 standard deviations
    above 2.2.
    Catches a diagnosis that takes one kind for another."""
    domain = get_domain(name)
    env = gym.make(IDS[name])
    model = as_model(domain.policy(), env.observation_space, env.action_space)
    found = {}
    for sampler in ("os", "auto", "off:delta=0.6"):
        collector = Collector(model, sampler, gamma=domain.gamma, seed=base_seed)
        for _ in collect(collector, env, episodes=150):
            pass
        found[sampler] = diagnose(collector.rollouts(), model)
    off = found["off:delta=0.6"]
    assert found["auto"].excess < found["os"].excess < 2.2
    assert off.excess > 2.2
    assert found["auto"].repair_steps == 0 < off.repair_steps
    assert abs(off.cells[0].z) > off.chance
    if model.actions.choices:
        actions = [c for c in found["os"].cells if c.where == "anywhere"]
        assert all(abs(c.taken - c.expected) < 6 * 0.5 * found["os"].steps ** 0.5 for c in actions)


def test_repair_takes_longer_the_farther_off() -> None:
    assert repair_steps(0.9, 10, 1000, 50.0) == 0
    assert 0 < repair_steps(2.0, 10, 1000, 50.0) < repair_steps(20.0, 10, 1000, 50.0)
    assert repair_steps(1e6, 130, 100_000, 50.0) < 10_000_000


@pytest.mark.statistical
def test_repairing_a_data_set_makes_it_on_policy(base_seed: int) -> None:
    """150 off-policy episodes, then 100 of auto: of the excess 0.09 ± 0.04 is left (27 runs: 0.02 … 0.14).
    P(false) ≤ 1e-5: 0.5 is 10 standard deviations off. Catches data that is only diluted: 150/250 would be left, or more."""
    _, first, env = through_gymnasium("cartpole", "off:delta=0.4", episodes=150, gamma=0.99, seed=base_seed)
    model = as_model(get_domain("cartpole").policy(), env.observation_space, env.action_space)
    before = diagnose(first, model)
    collector = Collector(model, "auto", gamma=0.99, initial=first, seed=base_seed)
    for _ in collect(collector, env, episodes=100):
        pass
    data = collector.rollouts()
    assert data.initial_episodes == 150
    assert diagnose(dataclasses.replace(data, initial_episodes=0), model).excess < 0.5 * before.excess


@pytest.mark.parametrize(
    ("excess", "words"),
    [
        (0.79, "better balanced than on-policy"), (0.81, "as balanced as on-policy"), (1.19, "as balanced as on-policy"),
        (1.44, "The data is off: its scores are 1.2 times as far"),
    ],
)  # fmt: skip
def test_words_follow_the_excess(excess: float, words: str) -> None:
    """1 ± 2 · 0.1 is what chance does."""
    found = Diagnosis(10, 400, 40.0, None, 0.1, excess, 0.1, 8, 5.0, 6.0, 90, 2.0, ())
    assert words in found.in_words()
    assert found.repair_episodes == 3
    assert "Mean return 5; with the actions' luck taken out 6." in found.in_words()
    assert "taken out" not in dataclasses.replace(found, balanced=None).in_words()
