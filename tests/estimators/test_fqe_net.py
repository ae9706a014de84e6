"""The network of fitted Q evaluation: it learns a table, and runs on vectors."""

from __future__ import annotations

import dataclasses
import sys

import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.estimators.fqe_net import NetSettings, _Data, fitted_q_network
from evenroll.samplers import OnPolicy
from tests.helpers import COIN
from tests.small_mdps import small_mdp

SMALL = NetSettings(width=32, embedding=8, learning_rate=1e-2, updates=300, batch=256, next_actions=8)


def test_network_learns_a_table() -> None:
    """Deterministic (own random numbers, single small network): within 0.1 of dynamic programming, value spread ≈ 1."""
    pytest.importorskip("torch")
    mdp = small_mdp(11, horizon=3)
    assert fitted_q_network(mdp.population(), mdp.policy, SMALL) == pytest.approx(mdp.value(), abs=0.1)


@pytest.mark.parametrize("name", ["cartpole", "cartpole-continuous"])
def test_network_runs_on_vectors(name: str) -> None:
    """Within the possible range, which a diverging fit would leave."""
    pytest.importorskip("torch")
    domain = get_domain(name)
    policy = domain.policy()
    driver = Driver(policy, OnPolicy(), (4,), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
    data = driver.run(domain.trial_environment((4,)), episodes=20)
    quick = dataclasses.replace(SMALL, updates=100)
    value = fitted_q_network(data, policy, quick)
    assert 5 < value < 60
    assert value == fitted_q_network(data, policy, quick)


def test_real_actions_are_drawn_from_the_policy() -> None:
    """The value of a state is the mean of Q over draws of π_e: with Q(a) = a² it is μ² + σ²."""
    torch = pytest.importorskip("torch")
    fit = _Data.__new__(_Data)
    fit.torch, fit.n_actions, fit.next_actions = torch, None, 20_000
    fit.random = torch.Generator().manual_seed(0)
    fit.policy = (torch.tensor([[1.0], [0.0]]), torch.tensor([[0.5], [2.0]]))
    fit.q = lambda rows, actions: actions[:, 0] ** 2
    assert fit.value(torch.tensor([0, 1])).tolist() == pytest.approx([1.25, 4.0], rel=0.05)


def test_network_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SpecError, match=r"evenroll\[torch\]"):
        fitted_q_network(small_mdp(1).population(), COIN)
