"""ROA: its definition, step by step, and the bounds of Lemma 1."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.catalogue import DOMAINS
from evenroll.domains.tabular import tabular_environment
from evenroll.estimators.importance import trajectory_log_weights
from evenroll.policies import TabularSoftmax
from evenroll.samplers import OnPolicy
from evenroll.samplers.roa import ROA
from evenroll.study.theory import count_deviation
from tests.helpers import double_policy, same_data, trial


@pytest.mark.parametrize("name", DOMAINS)
def test_roa_without_rho_is_on_policy_bit_for_bit(name: str) -> None:
    data = trial(name, ROA(0.0), steps=2000)
    same_data(data, trial(name, OnPolicy(), steps=2000))
    np.testing.assert_array_equal(data.log_e, data.log_b)


@pytest.mark.parametrize(("name", "steps"), [("gridworld", 300), ("cartpole", 60)])
def test_roa_behaviour_is_the_mixture_with_the_argmin(name: str, steps: int) -> None:
    """log π_b = log((1 − ρ) π_e(a) + ρ 1{a = argmin ‖S + g‖₁}), recomputed from the definition; both branches occur."""
    policy, rho = double_policy(name), 0.4
    data = trial(name, ROA(rho), policy=policy, steps=steps)
    S, taken = np.zeros(policy.parameters), 0
    for t in range(steps):
        s, a = data.observations[t], data.actions[t]
        norms = np.array([np.abs(S + policy.score(s, [float(c)])).sum() for c in range(policy.n_actions)])
        is_best = int(a[0]) == int(np.argmax(norms <= norms.min() * (1 + 1e-10)))  # the first of equals
        taken += is_best
        assert data.log_b[t] == pytest.approx(np.log((1 - rho) * np.exp(data.log_e[t]) + rho * is_best), abs=1e-9)
        S += policy.score(s, a)
    assert 0 < taken < steps


@pytest.mark.statistical
def test_roa_on_real_actions_takes_the_best_quantile_and_gives_it_no_weight(base_seed: int) -> None:
    """ρ = 1: each action is the quantile i/10 with the least ‖S + g‖₁. ρ = ¼: a quarter has weight 0.
    The rest is drawn from π_e: its quantiles are uniform (Kolmogorov and Smirnov).
    P(false) ≤ 1e-4: 4 standard errors, a p-value of 1e-5. Catches a share of 0.22 or 0.28, and quantiles off by 0.05."""
    from scipy.stats import kstest, norm

    policy = double_policy("cartpole-continuous")
    data = trial("cartpole-continuous", ROA(1.0), policy=policy, steps=25)
    S = np.zeros(policy.parameters)
    for t in range(25):
        s, a = data.observations[t], data.actions[t]
        mean, scale = (lambda o: (np.tanh(o[0]), np.logaddexp(0, o[1])))(policy.outputs(s))
        quantiles = mean + scale * norm.ppf(np.arange(1, 10) / 10)
        norms = [np.abs(S + policy.score(s, [q])).sum() for q in quantiles]
        assert a[0] == pytest.approx(quantiles[np.argmin(norms)], abs=1e-9)
        S += policy.score(s, a)
    mixed = trial("cartpole-continuous", ROA(0.25), policy=policy, seed=(base_seed,), steps=4000)
    searched = np.isposinf(mixed.log_b)
    assert abs(searched.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 4000)
    np.testing.assert_allclose(mixed.log_b[~searched], mixed.log_e[~searched] + np.log(0.75), rtol=1e-12)
    out = np.array([policy.outputs(s) for s in mixed.observations[~searched]])
    quantiles = norm.cdf((mixed.actions[~searched, 0] - np.tanh(out[:, 0])) / np.logaddexp(0.0, out[:, 1]))
    assert kstest(quantiles, "uniform").pvalue > 1e-5
    log_w = trajectory_log_weights(mixed)
    first = np.concatenate([[0], mixed.ends[:-1]])
    any_searched = np.logical_or.reduceat(searched[: mixed.ends[-1]], first)
    np.testing.assert_array_equal(np.isneginf(log_w), any_searched)


def test_greedy_roa_keeps_counts_within_the_bounds_of_lemma_1(base_seed: int) -> None:
    """|count(s,a) − visits(s) π(a|s)| ≤ |A| − 1 at all times, on random policies (exact: no chance of failure seen)."""
    rng = np.random.default_rng(base_seed)
    for actions in (2, 3, 5):
        policy = TabularSoftmax(rng.normal(size=(2, actions)))
        P = rng.dirichlet(np.ones(2), size=(2, actions))
        env = tabular_environment(P, np.zeros((2, actions)), [0.5, 0.5])
        data = trial("gridworld", ROA(1.0), policy=policy, env=env, steps=2000)
        for s in range(2):
            deviation = count_deviation(data.actions[data.observations[:, 0] == s, 0], policy.table[s])
            assert np.abs(deviation).max() <= actions - 1 + 1e-9


def test_roa_leaves_certain_and_impossible_actions_alone() -> None:
    policy = TabularSoftmax.from_probabilities([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]])
    env = tabular_environment(np.full((2, 3, 2), 0.5), np.zeros((2, 3)), [0.5, 0.5])
    data = trial("gridworld", ROA(1.0), policy=policy, env=env, steps=500)
    states, actions = data.observations[:, 0], data.actions[:, 0]
    np.testing.assert_array_equal(actions[states == 0], 1)
    assert set(actions[states == 1]) == {0, 1}
    np.testing.assert_array_equal(data.log_b[states == 0], data.log_e[states == 0])
