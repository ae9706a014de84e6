"""The paper's propositions, each on data, and the error in the proof of Theorem 3."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.tabular import tabular_environment
from evenroll.estimators.monte_carlo import monte_carlo
from evenroll.policies import TabularSoftmax
from evenroll.samplers import ROS, OnPolicy
from evenroll.study.theory import count_deviation, frequencies_kl, theorem_3_bounds, visitation

GREEDY = ROS(1e12)  # α → ∞: always the most under-sampled action


def bandit(rewards):
    n = len(rewards)
    P = np.zeros((2, n, 2))
    P[:, :, 1] = 1.0
    return tabular_environment(P, np.stack([rewards, np.zeros(n)]), [1.0, 0.0], [0.0, 1.0])


def layered(rng: np.random.Generator, layers: int = 4, states: int = 3, actions: int = 3):
    """A random layered MDP (time in the state), its policy and horizon."""
    n = layers * states + 1
    P = np.zeros((n, actions, n))
    for t in range(layers):
        for s in range(states):
            for a in range(actions):
                if t + 1 < layers:
                    P[t * states + s, a, (t + 1) * states : (t + 2) * states] = rng.dirichlet(np.ones(states))
                else:
                    P[t * states + s, a, -1] = 1.0
    P[-1, :, -1] = 1.0
    R = rng.uniform(-1, 1, (n, actions))
    d0 = np.zeros(n)
    d0[:states] = rng.dirichlet(np.ones(states))
    policy = TabularSoftmax(rng.normal(size=(n, actions)))
    end = np.zeros(n)
    end[-1] = 1.0
    return P, R, d0, end, policy


@pytest.mark.statistical
def test_proposition_1_example(base_seed: int) -> None:
    """After (a₀, a₀, a₁) with returns 2 and 4: one more on-policy draw gives 2.75 on average, ROS gives 3, the truth.
    P(false) ≤ 1e-11: all of 40 draws the same. Catches a ROS that may take a₀."""
    policy = TabularSoftmax(np.zeros((2, 2)))
    env = bandit([2.0, 4.0])
    data = Rollouts(
        1.0,
        3,
        np.array([2.0, 2.0, 4.0]),
        np.array([1, 2, 3]),
        np.ones(3, bool),
        np.zeros(3),
        np.zeros((3, 1)),
        np.array([[0.0], [0.0], [1.0]]),
        np.array([2.0, 2.0, 4.0]),
        np.full(3, np.log(0.5)),
        np.full(3, np.log(0.5)),
    )

    def after(sampler, seed):
        driver = Driver(policy, sampler, (base_seed, seed), gamma=1.0, horizon=1, initial=data, record_steps=True)
        return monte_carlo(driver.run(env, episodes=1))

    assert {after(GREEDY, seed) for seed in range(20)} == {3.0}
    outcomes = {after(OnPolicy(), seed) for seed in range(40)}
    assert outcomes == {2.5, 3.0}
    assert np.mean(sorted(outcomes)) == 2.75  # the two draws are equally likely


@pytest.mark.parametrize("actions", [2, 3, 5, 30])
def test_lemma_1_counts_never_leave_their_expectation(actions: int) -> None:
    rng = np.random.default_rng(actions)
    for trial in range(5):
        policy = TabularSoftmax(np.tile(rng.normal(size=actions), (2, 1)))
        driver = Driver(policy, GREEDY, (trial,), gamma=1.0, horizon=1, record_steps=True)
        taken = driver.run(bandit(np.zeros(actions)), episodes=4000).actions[:, 0]
        deviation = count_deviation(taken, policy.table[0])
        assert deviation.max() <= 1.0 + 1e-6
        assert np.abs(deviation).max() <= actions - 1 + 1e-6


@pytest.mark.statistical
def test_theorem_2_rates(base_seed: int) -> None:
    """Log-log slope of the mean KL over m = 2⁴ … 2¹²: −2 under ROS (which leaves nothing to chance: −2.02), −1 on-policy
    (20 × 200 trials: −1.015 ± 0.012). P(false) ≤ 1e-6: 0.08 is 5.4 standard deviations off. Catches a rate off by 0.1."""
    policy = TabularSoftmax([[0.0, 0.7, -0.4, 0.2]] * 2)
    visits = 2 ** np.arange(4, 13)

    def slope(sampler) -> float:
        kls = []
        for trial in range(200):
            driver = Driver(policy, sampler, (base_seed, trial), gamma=1.0, horizon=1, record_steps=True)
            taken = driver.run(bandit(np.zeros(4)), episodes=int(visits[-1])).actions[:, 0]
            kls.append(frequencies_kl(taken, policy.table[0])[visits - 1])
        return float(np.polyfit(np.log(visits), np.log(np.mean(kls, axis=0)), 1)[0])

    assert slope(OnPolicy()) == pytest.approx(-1.0, abs=0.08)
    assert slope(GREEDY) == pytest.approx(-2.0, abs=0.08)


@pytest.mark.statistical
def test_theorem_1_visitation_converges(base_seed: int) -> None:
    """Layered MDP, ROS with α → ∞: errors of d_n^t(s) after 60,000 trajectories, and the largest against that after 200.
    P(false) ≤ 2e-5: 5 standard errors of independent trajectories for each of 12 states, which ROS does not exceed, 7e-6;
    the first 200 would have to be as near as all in every layer, 1e-5. Catches a visitation off by 0.0102."""
    rng = np.random.default_rng(base_seed)
    P, R, d0, end, policy = layered(rng)
    exact = visitation(P, policy.table, d0, 4)
    env = tabular_environment(P, R, d0, end)
    driver = Driver(policy, GREEDY, (base_seed,), gamma=1.0, horizon=4, record_steps=True)
    states = driver.run(env, episodes=60_000).observations[:, 0].astype(int).reshape(-1, 4)

    def errors(n: int) -> np.ndarray:
        return np.abs(np.stack([np.bincount(states[:n, t], minlength=len(d0)) / n for t in range(4)]) - exact)

    assert (errors(60_000) <= 5 * np.sqrt(exact * (1 - exact) / 60_000)).all()
    assert errors(60_000).max() < errors(200).max()


def test_theorem_3_as_printed_is_false_and_the_corrected_bound_holds_there() -> None:
    """Horizon 2, one state per step, π = ½, R = ±1, the one trajectory (a₀, a₀)."""
    empirical = np.array([[1.0, 0.0], [1.0, 0.0]])
    on_policy = np.full((2, 2), 0.5)
    error = (0.0 - 2.0) ** 2
    bounds = theorem_3_bounds(empirical, on_policy, 1.0, 1.0)
    assert bounds.printed == pytest.approx(2 * np.sqrt(2 * np.log(2)))
    assert bounds.printed < error <= bounds.corrected
    assert bounds.corrected == pytest.approx(5.545, abs=1e-3)


@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_corrected_theorem_3_bound_holds_on_random_mdps(gamma: float) -> None:
    rng = np.random.default_rng(6)
    violations_of_printed = 0
    for trial, sampler in itertools.product(range(40), (OnPolicy(), GREEDY)):
        P, R, d0, end, policy = layered(rng)
        states, actions = R.shape
        exact = visitation(P, policy.table, d0, 4)[:, :, None] * policy.table
        value = sum(gamma**t * (exact[t] * R).sum() for t in range(4))
        driver = Driver(policy, sampler, (trial,), gamma=gamma, horizon=4, record_steps=True)
        data = driver.run(tabular_environment(P, R, d0, end), episodes=int(rng.integers(1, 60)))
        cells = (data.observations[:, 0] * actions + data.actions[:, 0]).astype(int).reshape(-1, 4)
        seen = np.stack([np.bincount(cells[:, t], minlength=states * actions) / len(cells) for t in range(4)])
        bounds = theorem_3_bounds(seen, exact.reshape(4, -1), gamma, np.abs(R).max())
        error = (value - monte_carlo(data)) ** 2
        assert error <= bounds.corrected + 1e-12
        violations_of_printed += error > bounds.printed
    assert violations_of_printed < 80  # random data rarely violates it; the counter-example above always does
