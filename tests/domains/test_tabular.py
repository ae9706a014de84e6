"""One's own finite MDP: its exact value against an enumeration of all trajectories, and against simulation."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import evenroll
from evenroll.collection.trial import Driver
from evenroll.domains.tabular import backward_induction, tabular_domain, tabular_environment
from evenroll.errors import PolicyError, SpecError
from evenroll.policies import MLP, TabularSoftmax
from evenroll.samplers import OnPolicy
from evenroll.study.true_value import truth

STATES, ACTIONS = 3, 2


def random_mdp(seed: int) -> tuple[np.ndarray, ...]:
    """P, R, d₀, terminal; the last state is terminal, and a trajectory can start in it."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(STATES), (STATES, ACTIONS))
    P[0, 0] = 0.0, 1.0, 0.0  # a transition that is certain
    return P, rng.normal(size=(STATES, ACTIONS)), rng.dirichlet(np.ones(STATES)), np.eye(STATES)[-1].astype(bool)


def enumerated(pi, P, R, d0, terminal, gamma, horizon) -> tuple[float, float, float]:
    """E[G], Var[G] and E[T] as sums over every trajectory of exactly `horizon` steps, what follows an end left out."""
    total, returns, lengths = [], [], []
    for path in itertools.product(range(STATES), *[range(ACTIONS), range(STATES)] * horizon):
        states, actions = path[::2], path[1::2]
        probability = d0[states[0]]
        for s, a, after in zip(states, actions, states[1:], strict=False):
            probability *= pi[s, a] * P[s, a, after]
        ends = [t + 1 for t in range(horizon) if terminal[states[t + 1]]]
        length = ends[0] if ends else horizon
        total.append(probability)
        lengths.append(length)
        returns.append(sum(gamma**t * R[states[t], actions[t]] for t in range(length)))
    total, returns, lengths = np.array(total), np.array(returns), np.array(lengths)
    assert total.sum() == pytest.approx(1.0)
    value = total @ returns
    return value, total @ (returns - value) ** 2, total @ lengths


@pytest.mark.parametrize("ending", [True, False], ids=["terminal", "endless"])
@pytest.mark.parametrize(("gamma", "horizon"), [(1.0, 1), (1.0, 4), (0.7, 4), (0.0, 3)])
def test_the_exact_value_is_the_sum_over_all_trajectories(gamma: float, horizon: int, ending: bool) -> None:
    for seed in range(3):
        P, R, d0, terminal = random_mdp(seed)
        policy = TabularSoftmax(np.random.default_rng(seed + 10).normal(size=R.shape))
        domain = tabular_domain("mine", P, R, d0, terminal if ending else None, gamma=gamma, horizon=horizon)
        known = domain.known_truth(policy)
        value, variance, length = enumerated(policy.table, P, R, d0, terminal & ending, gamma, horizon)
        assert known.value_se == 0.0
        assert (known.value, known.variance, known.mean_length) == pytest.approx((value, variance, length), rel=1e-12)


@pytest.mark.statistical
def test_the_exact_value_is_that_of_simulated_episodes(base_seed: int) -> None:
    """200,000 episodes; value, length and variance at 4.4 standard errors each. P(false) ≤ 4e-5.
    Catches a value or length off by 0.01 of its standard deviation, a variance off by about 2 %."""
    P, R, d0, terminal = random_mdp(0)
    policy = TabularSoftmax([[0.5, 0.0], [0.0, 1.0], [0.0, 0.0]])
    domain = tabular_domain("mine", P, R, d0, terminal, gamma=0.9, horizon=20)
    known = truth(domain, policy)
    driver = Driver(policy, OnPolicy(), (base_seed,), gamma=domain.gamma, horizon=domain.horizon)
    data = driver.run(domain.environment(None), episodes=200_000)
    root = np.sqrt(data.episodes)
    assert abs(data.returns.mean() - known.value) < 4.4 * np.sqrt(known.variance) / root
    assert abs(data.lengths.mean() - known.mean_length) < 4.4 * data.lengths.std() / root
    centred = (data.returns - known.value) ** 2
    assert abs(centred.mean() - known.variance) < 4.4 * centred.std() / root


def test_noise_adds_its_variance_at_every_step() -> None:
    """One state that never ends, one reward: after h steps the variance is σ² Σ γ²ᵗ."""
    policy, (P, R, d0) = TabularSoftmax(np.zeros((1, 2))), (np.ones((1, 2, 1)), np.full((1, 2), 3.0), np.ones(1))
    known = backward_induction(policy, P, R, d0, np.zeros(1), gamma=0.5, horizon=3, noise=2.0)
    assert known.value == pytest.approx(3.0 * (1 + 0.5 + 0.25))
    assert known.variance == pytest.approx(2.0 * (1 + 0.25 + 0.0625))


def test_a_return_that_never_varies_has_variance_zero() -> None:
    """Rounding must not make the variance negative: its root is taken."""
    policy = TabularSoftmax(np.zeros((1, 2)))
    for reward in np.random.default_rng(0).normal(size=50):
        domain = tabular_domain("still", np.ones((1, 2, 1)), np.full((1, 2), reward), [1.0], gamma=0.9, horizon=7)
        assert 0.0 <= domain.known_truth(policy).variance <= 1e-12


def test_one_line_makes_it_a_domain_like_any_other() -> None:
    P, R, d0, terminal = random_mdp(1)
    domain = evenroll.tabular_domain("mine", P, R, d0, terminal, horizon=5)
    policy = TabularSoftmax(np.zeros(R.shape))
    result = evenroll.evaluate(domain, policy, sampler="ros:alpha=1", episodes=400)
    assert result.value == pytest.approx(domain.known_truth(policy).value, abs=0.3)
    again = pickle.loads(pickle.dumps(domain))  # what goes to another process
    assert again.known_truth(policy) == domain.known_truth(policy)
    P[:] = 0.0  # the tables are the domain's own
    assert again.known_truth(policy) == domain.known_truth(policy)


def test_tables_that_do_not_fit_are_refused() -> None:
    P, R, d0, terminal = random_mdp(0)
    cases = {
        r"rewards must be \[states, actions\]": (P, R[:, 0], d0, terminal),
        r"transitions must be \[3, 2, 3\]": (P[:, :, :2], R, d0, terminal),
        "start and terminal": (P, R, d0, terminal[:2]),
        "sum to 1": (1.1 * P, R, d0, terminal),
        "non-negative": (P, R, [2.0, -1.0, 0.0], terminal),
        "rewards must be finite": (P, np.full_like(R, np.inf), d0, terminal),
        "true or false": (P, R, d0, [0, 0, 2]),
    }
    for message, tables in cases.items():
        with pytest.raises(SpecError, match=message):
            tabular_environment(*tables)
        with pytest.raises(SpecError, match=message):
            tabular_domain("mine", *tables, horizon=3)


def test_the_exact_value_needs_a_table() -> None:
    P, R, d0, terminal = random_mdp(0)
    domain = tabular_domain("mine", P, R, d0, terminal, horizon=3)
    with pytest.raises(PolicyError):
        domain.known_truth(TabularSoftmax(np.zeros((STATES + 1, ACTIONS))))
    network = MLP([(np.ones((4, 1)), np.zeros(4))], np.ones((ACTIONS, 4)), np.zeros(ACTIONS))
    with pytest.raises(PolicyError):
        domain.known_truth(network)
    with pytest.raises(PolicyError, match="a table"):
        backward_induction(network, P, R, d0, terminal, gamma=1.0, horizon=3)
