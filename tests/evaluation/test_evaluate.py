"""`evaluate`: progress, stopping when precise enough, words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import pytest

import evenroll
from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.evaluation import evaluate as evaluation_module
from evenroll.evaluation.evaluate import evaluate
from tests.helpers import DISCRETE, Walk
from tests.torch_helpers import Head, categorical


def test_progress_tells_how_far_and_what_is_known(monkeypatch) -> None:
    monkeypatch.setattr(evaluation_module, "SHOW_EVERY", 0.0)
    monkeypatch.setattr(evaluation_module, "time", SimpleNamespace(perf_counter=iter(range(10**6)).__next__))
    told: list = []
    result = evenroll.evaluate(Walk(DISCRETE), Head(3, 3, categorical), episodes=40, progress=told.append)
    assert [p.episodes for p in told] == list(range(1, 41))
    assert all(p.total == 40 for p in told)
    looks = [p.result for p in told if p.result is not None]
    assert looks[0].episodes < looks[-1].episodes <= 40
    assert result.episodes == 40


@pytest.mark.parametrize("lanes", [None, 4])
def test_stops_when_precise_enough(lanes: int | None) -> None:
    """Fewer episodes than allowed, an interval as narrow as asked; asked too much, it says so."""
    policy, make = get_domain("cartpole").policy(), lambda: gym.make("evenroll/CartPole-v0")
    env = make() if lanes is None else gym.vector.SyncVectorEnv([make] * lanes)
    result = evenroll.evaluate(env, policy, gamma=0.99, half_width="3%")
    assert result.half_width <= 0.03 * result.value
    assert 100 <= result.episodes < 4000  # on-policy sampling would need about 1,000
    assert "not enough" in evenroll.evaluate(env, policy, gamma=0.99, half_width=1e-6, episodes=40).note
    with pytest.raises(SpecError, match="half-width"):
        evenroll.evaluate(make(), policy, half_width=1.0, steps=100)


def test_not_narrow_enough_is_said():
    found = evaluate("bandit", half_width=1e-4, episodes=500)
    assert found.episodes == 500
    assert "not enough" in found.note


ODD: dict[str, Callable[[], Any]] = {
    "seed must be": lambda: evenroll.evaluate("bandit", seed=None),
    "seed must": lambda: evenroll.compare("bandit", ["os"], seed=-1, trials=2, budget=8),
    "workers must be": lambda: evenroll.compare("bandit", ["os"], workers=-3, trials=2, budget=8),
    "trials must be": lambda: evenroll.compare("bandit", ["os"], trials=2.5, budget=8),
    "budget must be a number": lambda: evenroll.compare("bandit", ["os"], trials=2, budget="x"),
    "episodes must be": lambda: evenroll.evaluate("bandit", episodes="many"),
    "episodes must": lambda: evenroll.evaluate("bandit", episodes=2.5),
    "steps must be": lambda: evenroll.evaluate("bandit", steps="x"),
    "gamma must be a number": lambda: evenroll.evaluate("bandit", gamma="x", episodes=5),
    "gamma must lie": lambda: evenroll.evaluate("bandit", gamma=-1, episodes=5),
    "horizon must be": lambda: evenroll.evaluate("gridworld", horizon=0, episodes=5),
    "horizon must": lambda: evenroll.Collector(get_domain("cartpole").policy(), horizon=2.5),
    "lanes must be": lambda: evenroll.Collector(get_domain("cartpole").policy(), lanes=-1),
    "confidence must": lambda: evenroll.evaluate("bandit", confidence="x", episodes=5),
    "half-width must": lambda: evenroll.evaluate("bandit", half_width=[1]),
    "gamma must be": lambda: evenroll.Collector(get_domain("cartpole").policy(), gamma=None),
}


@pytest.mark.parametrize("words", ODD)
def test_a_number_that_is_none_is_named(words: str) -> None:
    with pytest.raises(evenroll.EvenrollError, match=words):
        ODD[words]()


def test_all_means_keep_the_confidence_of_several_looks(monkeypatch) -> None:
    """When a narrow interval decides when to stop, the plain mean and the other quantities were looked at as often."""

    def one_look(collect, look, target, confidence, most):
        data = collect(30)
        value, interval = look(data, 0.999)
        return data, value, replace(interval, confidence=confidence)

    monkeypatch.setattr(evaluation_module, "look_until", one_look)
    settings: dict[str, Any] = {"sampler": "os", "gamma": 0.9, "seed": 3}
    found = evaluate("cartpole", half_width=1.0, **settings)
    surer = evaluate("cartpole", episodes=30, confidence=0.999, **settings)
    plain = evaluate("cartpole", episodes=30, **settings)
    assert found.confidence == 0.95
    assert (found.low, found.high) == (surer.low, surer.high)
    assert found.mean == surer.mean != plain.mean
    assert found.quantities == surer.quantities != plain.quantities
    assert set(found.quantities) == {"return", "length"}
