"""Regression on the scores: the scores, the model behind them, folds apart, and least squares."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.estimators.score_regression import ActionPart, action_part, regress, score_regression
from evenroll.estimators.table_action_part import advantages_of_model
from evenroll.policies import MLP
from tests.helpers import trial


def small_network(outputs=2, gaussian=False):
    rng = np.random.default_rng(5)
    shape = ((8, 4), (outputs, 8))
    head = {"head": "gaussian"} if gaussian else {}
    first, last = (rng.normal(size=s) / 2 for s in shape)
    return MLP([(first, np.zeros(8))], last, np.zeros(outputs), dtype=np.float64, **head)


def test_table_scores_are_those_of_the_policy():
    policy, data = get_domain("gridworld").policy(), trial("gridworld", episodes=20)
    states, sums = data.observations[:, 0].astype(int), np.zeros(policy.table.shape)
    np.add.at(sums, states, policy.distribution.scores(policy.logits[states], data.actions))
    np.testing.assert_allclose(sums.ravel(), policy.score_sum(data.observations, data.actions), atol=1e-9)


def test_head_scores_are_the_gradient_of_the_last_layer():
    policy = small_network()
    data = trial("cartpole", episodes=5, policy=policy)
    scores = policy.distribution.scores(policy.parameters_of_actions(data.observations), data.actions)
    psi, start = policy.features(data.observations), 0
    for end in data.ends:
        sums = scores[start:end].T @ psi[start:end]
        gradient = policy.score_sum(data.observations[start:end], data.actions[start:end])
        np.testing.assert_allclose(sums[:, :8].ravel(), gradient[-18:-2], atol=1e-8)
        np.testing.assert_allclose(sums[:, 8], gradient[-2:], atol=1e-8)
        start = end


@pytest.mark.statistical
def test_gaussian_scores_have_mean_0_and_variance_1(base_seed):
    """20,000 steps at most, 4.5 standard errors on each of 4 numbers; x = z and (z² − 1)/√2 have E[x⁴] − 1 = 2 and 14.
    P(false) ≤ 5e-5, the last number's skewness included. Catches a scale of z that is 3 % off."""
    policy = small_network(gaussian=True)
    data = trial("cartpole-continuous", "os", (base_seed,), episodes=600, policy=policy)
    u = policy.distribution.scores(policy.parameters_of_actions(data.observations), data.actions)[:20_000]
    assert len(u) > 5000
    assert np.abs(u.mean(axis=0)).max() < 4.5 / np.sqrt(len(u))
    assert (np.abs((u**2).mean(axis=0) - 1) < 4.5 * np.sqrt(np.array([2, 14]) / len(u))).all()


def test_model_advantages_are_dynamic_programming():
    """A complete random MDP with termination: Q − V of the linear system, mean 0 under π; unseen: average."""
    rng = np.random.default_rng(0)
    S, A, gamma = 5, 3, 0.9
    P = rng.dirichlet(np.ones(S + 1), size=(S, A))[:, :, :S]  # the rest of the mass ends the episode
    r, pi = rng.normal(size=(S, A)), rng.dirichlet(np.ones(A), size=S)
    V = np.linalg.solve(np.eye(S) - gamma * np.einsum("sa,sat->st", pi, P), (pi * r).sum(axis=1))
    exact = r + gamma * P @ V - V[:, None]
    visits = np.full((S, A), 1000.0)
    for horizon in (None, 400):
        found = advantages_of_model(P * 1000.0, r * 1000.0, visits, pi, gamma, horizon)
        np.testing.assert_allclose(found, exact, atol=1e-10)
    visits[2, 1] = 0.0
    thin = advantages_of_model(P * visits[:, :, None], r * visits, visits, pi, gamma, None)
    np.testing.assert_allclose((pi * thin).sum(axis=1), 0.0, atol=1e-12)
    assert abs(thin[2, 1]) < 1e-12


def test_an_episode_does_not_shape_its_own_correction():
    """Multiply one episode's rewards: the action part of its own fold stays, to the last bit; others change."""
    from dataclasses import replace

    for domain in ("bandit", "cartpole", "cartpole-continuous"):
        policy, data = get_domain(domain).policy(), trial(domain, episodes=60)
        rewards = data.rewards.copy()
        rewards[data.ends[6] : data.ends[7]] *= 3.0  # episode 7, fold 7
        before = action_part(data, policy).apart
        after = action_part(replace(data, rewards=rewards), policy).apart
        own = np.arange(60) % 10 == 7
        np.testing.assert_array_equal(before[own], after[own])
        assert (before[~own] != after[~own]).any()


@pytest.mark.statistical
def test_balanced_scores_take_the_mean_of_all_folds_together(base_seed):
    """Means over 8 runs of 200 episodes (20 means of 6 measured). Looseness: 1.07 ± 0.09 on-policy, 0.17 ± 0.03 with auto.
    Cross-fitting leans on balanced data, by +0.86 ± 0.165 against all folds together. P(false) ≤ 1e-6: 0.6 is 5.2, no lean
    5.2 standard deviations off. Catches a mean of the wrong folds: the other one is 0.5 (os) and 0.7 (auto) away."""

    policy = get_domain("cartpole-continuous").policy()

    def parts(sampler):
        runs = [trial("cartpole-continuous", sampler, (base_seed + i,), episodes=200) for i in range(8)]
        found = [action_part(data, policy) for data in runs]
        columns = ([p.loose for p in found], [p.apart.mean() for p in found], [p.together for p in found])
        return *(float(np.mean(c)) for c in columns), float(np.mean([p.mean for p in found]))

    loose, apart, together, used = parts("os")
    assert loose > 0.6
    assert abs(used - apart) < abs(used - together)
    loose, apart, together, used = parts("auto")
    assert loose < 0.6
    assert apart > together
    assert abs(used - together) < abs(used - apart)


def test_one_taking_of_an_action_is_not_proof():
    policy, data = get_domain("gridworld").policy(), trial("gridworld", "ros", (3,), episodes=400)
    total = int(data.ends[-1])
    cells = data.observations[:total, 0] * 4 + data.actions[:total, 0]
    counts = np.unique(cells, return_counts=True)[1]
    fit = score_regression(data, policy)
    assert fit.exact == (fit.unseen == 0 and counts.min() >= 2)


def test_the_regression_is_least_squares_with_an_intercept(base_seed: int) -> None:
    """Against the textbook: intercept, its standard error, and what is left of the freedom. Exact for any numbers."""
    rng = np.random.default_rng(base_seed)
    C = rng.normal(0.3, 1.0, (2, 50))
    gaps = 4.0 + 2.0 * C[0] - 3.0 * C[1] + rng.normal(size=50)
    parts = [ActionPart(c, together=0.0, loose=1.0, unseen=u) for c, u in zip(C, (0.0, 0.1), strict=True)]
    fit = regress(gaps, parts)
    X = np.column_stack([np.ones(50), *C])
    beta, rss, _, _ = np.linalg.lstsq(X, gaps, rcond=None)
    error = np.sqrt(rss[0] / 47 * np.linalg.inv(X.T @ X)[0, 0])
    assert (fit.value, fit.error, fit.freedom) == pytest.approx((beta[0], error, 47))
    assert fit.imbalance == pytest.approx(beta[1:] @ C.mean(axis=1))
    assert fit.unseen == 0.1
