"""A domain of one's own needs a name, γ, a horizon and an environment. If it lacks anything else, the message says so."""

from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np
import pytest

import evenroll
from evenroll.domains.domain import Domain, Truth
from evenroll.domains.gymnasium_env import DomainEnv, make_environment
from evenroll.errors import SpecError
from evenroll.policies import MLP, TabularSoftmax
from tests.domains.walk import environment, walk


def network() -> MLP:
    rng = np.random.default_rng(0)
    return MLP([(rng.normal(size=(8, 1)), np.zeros(8))], rng.normal(size=(2, 8)), np.zeros(2))


def test_four_fields_are_enough_to_evaluate() -> None:
    result = evenroll.evaluate(walk(), network(), sampler="auto", episodes=50)
    assert (result.domain, result.episodes) == ("walk", 50)


def test_what_is_missing_is_said_with_what_to_do() -> None:
    with pytest.raises(SpecError, match="give a policy, or make one with `evenroll train`"):
        walk().policy()
    with pytest.raises(SpecError, match="give a policy"):
        evenroll.evaluate(walk(), episodes=10)
    with pytest.raises(SpecError, match=r"alpha must be given, for example ros:alpha=1"):
        evenroll.evaluate(walk(), network(), sampler="ros", episodes=10)
    assert walk().known_truth(network()) is None


@pytest.mark.parametrize(
    "change", [{"gamma": 1.1}, {"gamma": -0.1}, {"gamma": float("nan")}, {"horizon": 0}, {"horizon": 2.5}]
)
def test_a_discount_or_horizon_that_cannot_be_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(SpecError, match=next(iter(change))):
        dataclasses.replace(walk(), **change)


def test_without_a_seed_a_redrawn_domain_tells_its_average() -> None:
    average = Truth(0.5, 0.0, 1.0, float("nan"))
    exact = Truth(0.25, 0.0, 1.0, 0.0)
    domain = Domain("mine", 1.0, 1, environment, lambda *_: exact, redrawn=True, average=average)
    assert domain.known_truth(network()) is average
    assert domain.known_truth(network(), (0, 1)) is exact
    assert dataclasses.replace(domain, average=None).known_truth(network()) is None


def test_a_domain_of_ones_own_is_a_gymnasium_environment() -> None:
    env = make_environment(walk())
    assert isinstance(env.observation_space, gymnasium.spaces.Box)
    env.reset(seed=0)
    for t in range(1, 31):
        _, _, terminated, truncated, _ = env.step(t % 2)
        assert not terminated
        assert truncated == (t == 30)  # its horizon
    with pytest.raises(SpecError, match="step=2"):
        DomainEnv(walk(), step=2)


def test_gymnasium_and_engine_agree_on_ones_own_tables() -> None:
    P, R = np.eye(2)[[[1, 1], [1, 1]]], [[1.0, 1.0], [2.0, 2.0]]
    domain = evenroll.tabular_domain("two rewards", P, R, [1.0, 0.0], horizon=2)
    env = make_environment(domain)
    observation, _ = env.reset(seed=0)
    assert observation == 0
    assert env.step(0)[:2] == (1, 1.0)
    assert env.step(1)[:4] == (1, 2.0, False, True)
    assert domain.known_truth(TabularSoftmax(np.zeros((2, 2)))) == Truth(3.0, 0.0, 2.0, 0.0)
