"""The excess reads 1 on on-policy data, less on balanced data, more where a sampler runs away; the guard follows it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll import TabularSoftmax, get_domain, tabular_domain
from evenroll.collection.trial import Driver
from evenroll.domains.domain import Domain
from evenroll.engine.blas import single_threaded_blas
from evenroll.estimators.imbalance import beyond_balance, imbalance
from evenroll.evaluation.looking import runs_away
from evenroll.policies import Policy
from evenroll.samplers.table import get_sampler
from evenroll.study.trials import initial_data
from tests.helpers import trial

CLIFF = "CliffWalking-v1" if "CliffWalking-v1" in gym.registry else "CliffWalking-v0"  # the name before Gymnasium 1.2


def toy_text(name: str, epsilon: float) -> tuple[Domain, TabularSoftmax]:
    """A toy text environment as a table, with the ε-greedy version of its best policy. One more state stands for the end."""
    env = gym.make(name).unwrapped
    states, actions = int(env.observation_space.n), int(env.action_space.n)  # type: ignore[attr-defined]
    P, R = np.zeros((states + 1, actions, states + 1)), np.zeros((states + 1, actions))
    for s in range(states):
        for a in range(actions):
            for p, after, reward, over in env.P[s][a]:  # type: ignore[attr-defined]
                P[s, a, states if over else after] += p
                R[s, a] += p * reward
    P[states, :, states] = 1.0
    Q = np.zeros((states + 1, actions))
    for _ in range(100):
        Q = R + P @ Q.max(axis=1)
        Q[states] = 0.0
    pi = np.full(Q.shape, epsilon / actions)
    pi[np.arange(len(Q)), Q.argmax(axis=1)] += 1.0 - epsilon
    start = np.append(env.initial_state_distrib, 0.0)  # type: ignore[attr-defined]
    end = np.append(np.zeros(states), 1.0)
    return tabular_domain(name, P, R, start, end, horizon=100), TabularSoftmax(np.log(pi))


def random_table(epsilon: float) -> tuple[Domain, TabularSoftmax]:
    """Twenty states, five actions, a policy that hardly ever takes some of them, and an end that is met now and then."""
    rng = np.random.default_rng(5)
    P, end = rng.dirichlet(np.full(20, 0.1), (20, 5)), np.eye(20)[19]
    P[19] = end
    policy = TabularSoftmax(rng.normal(scale=1.0 / epsilon, size=(20, 5)))
    return tabular_domain("random", P, rng.normal(size=(20, 5)), np.full(20, 0.05), end, horizon=30), policy


TABLES = {
    "cliff": lambda: toy_text(CLIFF, 0.3),
    "near-deterministic cliff": lambda: toy_text(CLIFF, 0.02),
    "taxi": lambda: toy_text("Taxi-v3" if "Taxi-v4" not in gym.registry else "Taxi-v4", 0.3),
    "random table": lambda: random_table(0.4),
    "near-deterministic table": lambda: random_table(0.15),
}


def task(name: str) -> tuple[Domain, Policy]:
    return TABLES[name]() if name in TABLES else (get_domain(name), get_domain(name).policy())


def excesses(
    domain: Domain, policy: Policy, spec: str, episodes: int, seed: int, runs: int
) -> list[tuple[float, float, bool]]:
    """(excess, error, whether the guard barks) of some runs."""
    found = []
    with single_threaded_blas():  # as `evaluate` has it
        for run in range(runs):
            sampler = get_sampler(spec, domain.paper)
            driver = Driver(policy, sampler, (seed, run), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
            data = driver.run(domain.environment(None), episodes=episodes)
            seen = imbalance(data, policy)
            found.append((seen.excess, seen.error, runs_away(data, policy, sampler) is not None))
    return found


@pytest.mark.statistical
@pytest.mark.parametrize("episodes", [30, 200, 1000])
@pytest.mark.parametrize("name", ["cartpole", "cartpole-continuous", "gridworld", "cliff", "random table"])
def test_on_policy_data_reads_one(name: str, episodes: int, base_seed: int) -> None:
    """The mean of 12 runs is 1 up to 5 standard errors and the 0.1 that 30 episodes add (0.07 ± 0.03 in 60 runs).
    P(false) ≤ 1e-5: 5 standard errors of a χ²-like mean. Catches the excess of 0.27 to 0.45 that counted directions in which
    the features never move, and Pearson's χ² (0.74 on Taxi-v4)."""
    domain, policy = task(name)
    found = excesses(domain, policy, "os", episodes, base_seed, 12)
    error = float(np.mean([e for _, e, _ in found]))
    mean = float(np.mean([x for x, _, _ in found]))
    assert 1.0 - 5.0 * error / 12**0.5 < mean < 1.1 + 5.0 * error / 12**0.5
    spread = float(np.std([x for x, _, _ in found], ddof=1))
    assert 0.3 * error < spread < 2.5 * error  # the error that is told is the one that is there


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "spec", "alarm"),
    [
        ("cartpole", "auto", False), ("cartpole-continuous", "auto", False), ("gridworld", "auto", False),
        ("bandit", "ros", False), ("cliff", "auto", False), ("near-deterministic cliff", "auto", False),
        ("taxi", "auto", False), ("random table", "auto", False), ("near-deterministic table", "auto", False),
        ("cartpole", "ros:alpha=1000", True), ("cartpole-continuous", "ros:alpha=100", True),
    ],
)  # fmt: skip
def test_the_guard_barks_where_the_error_is_larger_and_only_there(name: str, spec: str, alarm: bool, base_seed: int) -> None:
    """Six runs of 60 episodes, most of them right. Where it must bark, the excess is 20 and more at an error of 0.2; where
    it must not, 0.7 and less (20 runs each; on the cliff the error is a fifth of on-policy sampling's, at 0.2 nats a step).
    P(false) ≤ 1e-5: a single run is wrong with less than 1e-2, and three would have to be. Catches a guard that goes by the
    distance of the behaviour, which barked on the cliff, one that sleeps, and one that always barks."""
    domain, policy = task(name)
    found = excesses(domain, policy, spec, 60, base_seed, 6)
    assert sum(barks is alarm for _, _, barks in found) >= 4


def test_a_table_by_hand() -> None:
    """One state, three visits, π = (¼, ¾), counts (2, 1): expected (0.75, 2.25), both off by 1.25."""
    policy = TabularSoftmax(np.log([[0.25, 0.75]]))
    domain = tabular_domain("one", np.ones((1, 2, 1)), np.zeros((1, 2)), [1.0], [1.0], horizon=1)
    data = Driver(policy, get_sampler("os"), (0,), gamma=1.0, horizon=1, record_steps=True).run(
        domain.environment(None), episodes=3
    )
    data.column("actions")[:, 0] = 0, 0, 1
    found = imbalance(data, policy)
    variance = 3 * 0.25 * 0.75
    directions = variance / 1.75 + variance / 3.25
    assert found.directions == pytest.approx(directions)
    assert found.excess == pytest.approx((1.25**2 / 1.75 + 1.25**2 / 3.25) / directions)
    spread = (variance + 2 * variance**2) * (1.75**-2 + 3.25**-2)
    assert found.error == pytest.approx(spread**0.5 / directions)


def test_a_network_against_the_plain_formula() -> None:
    data, policy = trial("cartpole", "os", episodes=40), get_domain("cartpole").policy()
    psi = policy.features(data.column("observations")).astype(np.float64)  # type: ignore[attr-defined]
    outputs = policy.parameters_of_actions(data.column("observations"))
    p = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    t = np.concatenate([np.arange(n) for n in data.lengths])
    discounted = psi * (data.gamma**t)[:, None]
    x = (data.column("actions")[:, 0] == 1) - p[:, 1]
    K = (discounted * (2 * p[:, :1] * p[:, 1:])).T @ discounted  # the variances of both scores, which share one direction
    ridge = np.trace(K) / len(K) / data.steps
    inverse = np.linalg.inv(K + ridge * np.eye(len(K)))
    S = discounted.T @ x
    directions = np.trace(inverse @ K)
    found = imbalance(data, policy)
    assert found.directions == pytest.approx(directions, rel=1e-6)
    assert found.excess == pytest.approx(2 * S @ inverse @ S / directions, rel=1e-6)


def test_nothing_can_be_out_of_balance_where_there_is_no_choice() -> None:
    policy = TabularSoftmax([[0.0, -np.inf]])
    domain = tabular_domain("none", np.ones((1, 2, 1)), np.zeros((1, 2)), [1.0], [1.0], horizon=1)
    data = Driver(policy, get_sampler("os"), (0,), gamma=1.0, horizon=1, record_steps=True).run(
        domain.environment(None), episodes=3
    )
    assert imbalance(data, policy).excess == 0.0
    assert not imbalance(data, policy).more_than_chance


def test_a_sampler_that_runs_away_has_no_interval_and_says_what_to_do() -> None:
    found = evenroll.evaluate("cartpole", sampler="ros:alpha=1000", episodes=60)
    assert found.runs_away
    assert found.low is None
    assert "use auto, or a smaller step size" in str(found.why)


def test_initial_data_of_the_policy_itself_shifts_nothing() -> None:
    policy, table = get_domain("cartpole").policy(), get_domain("gridworld").policy()
    assert beyond_balance(trial("cartpole", "os", episodes=40), policy) == 0.0
    new, own = trial("cartpole", "os", episodes=40), trial("cartpole", "auto", (8,), episodes=40)
    assert beyond_balance(new.after(own), policy) == 0.0
    far = trial("gridworld", "off:delta=1", episodes=40)
    assert beyond_balance(trial("gridworld", "os", episodes=40).after(far), table) == 0.0  # a table tells all actions apart
    far = trial("cartpole", "off:delta=1", episodes=40)
    seen = imbalance(far, policy)
    expected = (seen.excess - 1.0 - 2.0 * seen.error) * seen.directions / 6.0 / 80
    assert beyond_balance(new.after(far), policy) == pytest.approx(expected)
    assert expected > 0.2


@pytest.mark.statistical
def test_initial_data_of_another_policy_is_in_the_interval(base_seed: int) -> None:
    """200 episodes that act at random, then 30 of auto: the mean is off by 10.6, and all of eight intervals hold the value.
    P(false) ≤ 1e-6: 60 of 60 held it, with room to spare (twice the error). Catches an interval that takes the balance for
    all there is: its half-width is 7, and none of 60 held the value."""
    domain, policy = get_domain("cartpole"), get_domain("cartpole").policy()
    value = domain.known_truth(policy).value  # type: ignore[union-attr]
    for i in range(8):
        initial = initial_data(domain, policy, (base_seed, i), episodes=200, delta=1.0)
        found = evenroll.evaluate("cartpole", initial=initial, episodes=30, seed=base_seed + i)
        assert found.low is not None
        assert found.low < value < found.high  # type: ignore[operator]
        assert "collected by another policy" in str(found.note)
