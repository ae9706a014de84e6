"""`auto` obeys the laws it was built on, with any policy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.errors import SpecError
from evenroll.evaluation.collector import Collector
from evenroll.policies import MLP, Policy, TabularSoftmax
from evenroll.samplers import Auto, OnPolicy
from evenroll.samplers.auto_state import Memory
from evenroll.samplers.table import get_sampler
from evenroll.study.training import initial_policy
from tests.helpers import trial, trial_driver


@pytest.mark.parametrize("name", DOMAINS)
def test_with_a_cap_of_zero_it_is_on_policy_sampling(name: str) -> None:
    capped = trial(name, Auto(max_kl=0.0), episodes=50)
    plain = trial(name, OnPolicy(), episodes=50)
    assert np.array_equal(capped.returns, plain.returns)
    assert np.array_equal(capped.column("actions"), plain.column("actions"))
    np.testing.assert_allclose(capped.column("log_b"), capped.column("log_e"), rtol=0, atol=1e-13)


def test_the_cap_holds_in_every_state() -> None:
    data = trial("cartpole", Auto(max_kl=0.01), episodes=100)
    b, e = np.exp(data.column("log_b")), np.exp(data.column("log_e"))  # of two actions, one tells all
    kl = b * np.log(b / e) + (1 - b) * np.log((1 - b) / (1 - e))
    assert 0.009 < kl.max() <= 0.01 + 1e-9


def test_the_cap_must_make_sense() -> None:
    for bad in (-1.0, math.nan):
        with pytest.raises(SpecError, match="max_kl"):
            Auto(max_kl=bad)
    assert str(get_sampler("auto")) == "auto"
    assert str(get_sampler("auto:max_kl=0.1")) == "auto:max_kl=0.1"


def _odd_policies() -> dict[str, tuple[str, Policy]]:
    rng = np.random.default_rng(0)
    certain = np.full((16, 4), -np.inf)
    certain[:, 1] = certain[:, 3] = 0.0
    discrete, real = (initial_policy(get_domain(d), rng) for d in ("cartpole", "cartpole-continuous"))
    assert isinstance(discrete, MLP)
    assert isinstance(real, MLP)

    def with_head(base: MLP, weight: np.ndarray, bias: np.ndarray) -> MLP:
        return MLP(base.layers, weight, bias, head=base.head, norm=base.norm)

    return {
        "impossible actions": ("gridworld", TabularSoftmax(certain)),
        "near certain table": ("gridworld", TabularSoftmax(200.0 * rng.normal(size=(16, 4)))),
        "near certain network": ("cartpole", with_head(discrete, 500.0 * discrete.head_weight, discrete.head_bias)),
        "three actions": ("cartpole:actions=3", with_head(discrete, rng.normal(size=(3, 64)), np.zeros(3))),
        "tiny scale": ("cartpole-continuous", with_head(real, real.head_weight, np.array([0.0, -30.0]))),
        "no features": ("cartpole", with_head(discrete, 0.0 * discrete.head_weight, discrete.head_bias)),
        "double precision": ("cartpole", discrete.astype(np.float64)),
    }


@pytest.mark.parametrize("kind", _odd_policies())
def test_no_policy_breaks_it(kind: str) -> None:
    name, policy = _odd_policies()[kind]
    driver = trial_driver(name, Auto(), policy=policy)
    data = driver.run(get_domain(name).environment(None), episodes=40)
    assert np.isfinite(data.returns).all()
    assert np.isfinite(data.column("log_b")).all()
    assert np.isfinite(driver.divergence.kl)
    assert not driver.divergence.runs_away


def test_it_knows_when_its_steps_were_taken() -> None:
    """Σ t over all steps, from which it takes the length of episodes; also over initial data, and lane by lane."""
    domain = get_domain("cartpole")
    first = trial("cartpole", OnPolicy(), episodes=7)
    driver = Driver(domain.policy(), Auto(), (1,), gamma=domain.gamma, horizon=domain.horizon, initial=first)
    data = driver.run(domain.trial_environment((1,)), episodes=9)
    assert Memory(driver.balance.memory).times == sum(n * (n - 1) // 2 for n in data.lengths)
    together = Collector(domain.policy(), lanes=3)
    nobody = np.zeros(3, dtype=bool)
    for _ in range(5):
        together.act(np.zeros((3, 4)))
        together.observe(np.ones(3), nobody, nobody)
    assert together.stepper is not None
    assert Memory(together.stepper.balance.memory).times == 3 * (0 + 1 + 2 + 3 + 4)
