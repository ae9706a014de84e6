"""The network of fitted Q evaluation: its gradient and Adam are PyTorch's, it learns a table, and runs on vectors."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import DataError
from evenroll.estimators import fqe_net
from evenroll.estimators.fqe_net import Adam, NetSettings, Network, data_of, fitted_q_network, sums, targets
from evenroll.policies import Policy
from evenroll.samplers import OnPolicy
from tests.small_mdps import small_mdp

SMALL = NetSettings(width=32, embedding=8, learning_rate=1e-2, updates=300, batch=256, next_actions=8)


def data_from(name: str, episodes: int = 20) -> tuple[Rollouts, Policy]:
    domain = get_domain(name)
    policy = domain.policy()
    driver = Driver(policy, OnPolicy(), (4,), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
    return driver.run(domain.trial_environment((4,)), episodes=episodes), policy


def network_on(name: str, settings: NetSettings = SMALL, **changes: object) -> Network:
    """A fresh network in float64 on a little data of a domain."""
    data = dataclasses.replace(data_of(*data_from(name), np.float64), **changes)
    return Network(data, settings, np.random.default_rng(1))


def test_network_learns_a_table() -> None:
    """Deterministic (own random numbers, single small network): within 0.1 of dynamic programming, value spread ≈ 1."""
    mdp = small_mdp(11, horizon=3)
    assert fitted_q_network(mdp.population(), mdp.policy, SMALL) == pytest.approx(mdp.value(), abs=0.1)


@pytest.mark.parametrize("name", ["cartpole", "cartpole-continuous"])
def test_network_runs_on_vectors(name: str) -> None:
    """Within the possible range, which a diverging fit would leave."""
    data, policy = data_from(name)
    quick = dataclasses.replace(SMALL, updates=100)
    value = fitted_q_network(data, policy, quick)
    assert 5 < value < 60
    assert value == fitted_q_network(data, policy, quick)
    assert value != fitted_q_network(data, policy, dataclasses.replace(quick, seed=1))


def test_a_fit_is_the_same_beside_others_and_with_any_threads() -> None:
    """Wide enough that threads of linear algebra would divide the products, and change their last bits."""
    data, policy = data_from("cartpole-continuous")
    wide = NetSettings(width=256, updates=3, batch=512, next_actions=8)
    alone = fitted_q_network(data, policy, wide)
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert fitted_q_network(data, policy, wide) == alone
    with ThreadPoolExecutor(2) as pool, threadpool_limits(1):
        assert set(pool.map(lambda _: fitted_q_network(data, policy, wide), range(4))) == {alone}


def test_a_fit_keeps_linear_algebra_on_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def threads(*_: object) -> float:
        return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")

    monkeypatch.setattr(fqe_net, "_fit", threads)
    with threadpool_limits(2):
        assert fitted_q_network(small_mdp(1).population(), small_mdp(1).policy) == 1


# ---- against PyTorch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bandit", "gridworld", "cartpole", "cartpole-continuous"])
def test_gradient_and_values_are_those_of_torch(name: str) -> None:
    """The same network from torch's own layers, in float64: one row [time, state, action], a plain W₁ and plain biases."""
    torch = pytest.importorskip("torch")
    network = network_on(name)
    data, rows = network.data, np.random.default_rng(2).integers(network.data.size, size=100)
    target = np.random.default_rng(3).normal(size=100)
    gradient = network.gradient(rows, target).copy()
    theta = torch.tensor(network.parameters, requires_grad=True)
    part, begin = {}, 0
    for key, x in network.part.items():
        part[key], begin = theta[begin : begin + x.size].reshape(x.shape), begin + x.size

    def q(numbers, states, actions):
        weights, inputs = [part["numbers"][:1], part["numbers"][2:]], [numbers[:, :1], numbers[:, 2:]]
        for kind, codes in (("state", states), ("action", actions)):
            if kind in part:
                weights.append(part[kind])
                inputs.append(torch.nn.functional.embedding(torch.as_tensor(codes), part[f"{kind} codes"]))
        w1, b1 = torch.cat(weights)[:, :-1], part["numbers"][1, :-1]
        x = torch.nn.functional.linear(torch.cat(inputs, dim=1), w1.T, b1).relu()
        x = torch.nn.functional.linear(x, part["second"][:-1].T, part["second"][-1]).relu()
        return torch.nn.functional.linear(x, part["last"][None], part["last bias"])[:, 0]

    numbers = torch.tensor(data.numbers[rows])
    loss = torch.nn.functional.mse_loss(q(numbers, data.states[rows], data.actions[rows]), torch.tensor(target))
    loss.backward()
    expected = theta.grad.numpy().copy()
    fixed = np.zeros(len(gradient), dtype=bool)  # what makes the constant unit is no parameter
    for key, x in network._parts_of(fixed).items():
        if key in ("numbers", "state", "action"):
            x[:, -1] = True
    assert not gradient[fixed].any()
    assert np.abs(expected).max() > 0.01
    assert gradient[~fixed] == pytest.approx(expected[~fixed], rel=1e-10, abs=1e-12)

    if data.n_actions is not None:
        value = sum(
            torch.tensor(data.chances[rows, a]) * q(numbers, data.states[rows], np.full(100, a))
            for a in range(data.n_actions)
        )
        assert network.values(rows) == pytest.approx(value.detach().numpy(), rel=1e-10)
    else:
        still = Network(dataclasses.replace(data, scales=0.0 * data.scales), SMALL, np.random.default_rng(1))
        numbers[:, -1:] = torch.tensor(data.means[rows])
        assert still.values(rows) == pytest.approx(q(numbers, None, None).detach().numpy(), rel=1e-10)


def test_adam_is_that_of_torch() -> None:
    """250 steps with a rate that follows a cosine, gradients of all sizes, and a parameter without any."""
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    start, sizes = random.normal(size=12), 10.0 ** np.arange(-8, 4)
    sizes[5] = 0.0
    theirs = torch.tensor(start, requires_grad=True)
    optimiser = torch.optim.Adam([theirs], 1e-2)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 250)
    ours = start.copy()
    adam = Adam(ours)
    for k in range(250):
        gradient = sizes * (random.normal(size=12) + 0.5)
        adam.step(gradient, 1e-2 * (1 + np.cos(np.pi * k / 250)) / 2)
        theirs.grad = torch.tensor(gradient)
        optimiser.step()
        decay.step()
    assert ours == pytest.approx(theirs.detach().numpy(), rel=1e-9)
    assert np.abs(ours - start).max() > 0.1


def test_a_whole_fit_is_adam_on_the_loss() -> None:
    """Twenty updates with torch's Adam and scheduler on the same gradients give the same value, to float32's rounding."""
    torch = pytest.importorskip("torch")
    rollouts, policy = data_from("gridworld")
    settings = dataclasses.replace(SMALL, updates=20)
    random = np.random.default_rng(settings.seed)
    network = Network(data_of(rollouts, policy), settings, random)
    theta = torch.from_numpy(network.parameters)  # shares its memory
    optimiser = torch.optim.Adam([theta], settings.learning_rate)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, settings.updates)
    for _ in range(settings.updates):
        rows = random.integers(network.data.size, size=min(settings.batch, network.data.size))
        theta.grad = torch.from_numpy(network.gradient(rows, targets(network, rows)))
        optimiser.step()
        decay.step()
    expected = network.values(np.concatenate([[0], rollouts.ends[:-1]])).mean()
    assert fitted_q_network(rollouts, policy, settings) == pytest.approx(float(expected), rel=1e-4)


# ---- pieces --------------------------------------------------------------------------------------------------


def test_targets() -> None:
    """r + γ V(next row) where the trajectory goes on, r where it ends, and never beyond the possible range."""
    network = network_on("gridworld", gamma=0.5)
    data, rows = network.data, np.arange(network.data.size)
    ahead = np.append(network.values(rows[1:]), 0.0)
    expected = data.rewards + 0.5 * np.where(data.goes_on, ahead, 0.0)
    assert 0 < data.goes_on.sum() < data.size
    assert targets(network, rows) == pytest.approx(expected)
    network.data = dataclasses.replace(data, low=-0.5, high=0.25)
    assert targets(network, rows) == pytest.approx(expected.clip(-0.5, 0.25))


def test_the_range_of_values_is_known_where_the_future_is_discounted() -> None:
    """Rewards of 1 for 200 steps at γ = ½ are worth at most 2; without discount nothing is clipped."""
    rollouts, policy = data_from("cartpole")
    data = data_of(dataclasses.replace(rollouts, gamma=0.5), policy)
    assert (data.low, data.high) == (0.0, pytest.approx(2.0))
    data = data_of(dataclasses.replace(rollouts, gamma=1.0), policy)
    assert (data.low, data.high) == (-np.inf, np.inf)


def test_what_the_network_sees() -> None:
    """The time is a share of the horizon, and observations have mean 0 and spread 1."""
    rollouts, policy = data_from("cartpole-continuous")
    numbers = data_of(rollouts, policy, np.float64).numbers
    first = int(rollouts.lengths[0])
    assert numbers[:first, 0] == pytest.approx(np.arange(first) / rollouts.horizon)
    assert (numbers[:, 1] == 1.0).all()
    assert numbers[:, 2:-1].mean(axis=0) == pytest.approx(0.0, abs=1e-9)
    assert numbers[:, 2:-1].std(axis=0) == pytest.approx(1.0)
    assert (numbers[:, -1] == rollouts.actions[:, 0]).all()


def test_many_rounds_of_queries_are_one() -> None:
    network = network_on("gridworld")
    rows = np.arange(50)
    whole = network.values(rows)
    network.at_once = 7
    assert network.values(rows) == pytest.approx(whole, rel=1e-12)
    assert len(network.values(rows[:0])) == 0


def test_real_actions_are_drawn_from_the_policy() -> None:
    """The value of a state is the mean of Q over draws of π_e: with Q(a) = |a| it is the mean of a folded normal."""
    network = network_on("cartpole-continuous", dataclasses.replace(SMALL, next_actions=20_000))
    for x in network.part.values():
        x[...] = 0.0
    network.part["numbers"][-1, :2] = 1.0, -1.0  # |a| = relu(a) + relu(−a)
    network.part["second"][:2, 0] = network.part["last"][0] = 1.0
    data = network.data
    network.data = dataclasses.replace(data, means=data.means * 0.0 + 3.0, scales=data.scales * 0.0 + 0.5)
    assert network.values(np.array([0, 1])) == pytest.approx([3.0, 3.0], rel=0.01)
    network.data = dataclasses.replace(data, means=data.means * 0.0, scales=data.scales * 0.0 + 2.0)
    assert network.values(np.array([0, 1])) == pytest.approx(2.0 * np.sqrt(2.0 / np.pi), rel=0.05)


@pytest.mark.parametrize("count", [3, 128, 129, 400])
def test_sums_by_code(count: int) -> None:
    random = np.random.default_rng(count)
    x, codes = random.normal(size=(50, 4)), random.integers(count, size=50)
    expected = [x[codes == code].sum(axis=0) for code in range(count)]
    assert sums(x, codes, count) == pytest.approx(np.array(expected), abs=1e-12)


def test_sums_of_dead_units_do_not_become_denormal() -> None:
    """A float32 below 1e-38 makes every operation on it many times as slow."""
    adam = Adam(np.zeros(3, dtype=np.float32))
    adam.step(np.ones(3, dtype=np.float32), 1e-3)
    for _ in range(900):
        adam.step(np.zeros(3, dtype=np.float32), 1e-3)
    assert not adam.sum.any()


def test_a_policy_that_is_neither_table_nor_network_is_refused() -> None:
    class Other:
        n_states = n_actions = None

    with pytest.raises(DataError, match="does not know how Other chooses"):
        fitted_q_network(small_mdp(1).population(), Other())
