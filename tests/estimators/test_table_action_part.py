"""The action part of a table: its scores, and the model that is solved for the worth of every action."""

from __future__ import annotations

import numpy as np

from evenroll.domains.catalogue import get_domain
from evenroll.estimators.score_regression import score_regression
from evenroll.estimators.table_action_part import advantages_of_model
from tests.helpers import trial


def test_table_scores_are_those_of_the_policy():
    policy, data = get_domain("gridworld").policy(), trial("gridworld", episodes=20)
    states, sums = data.observations[:, 0].astype(int), np.zeros(policy.table.shape)
    np.add.at(sums, states, policy.distribution.scores(policy.logits[states], data.actions))
    np.testing.assert_allclose(sums.ravel(), policy.score_sum(data.observations, data.actions), atol=1e-9)


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


def test_one_taking_of_an_action_is_not_proof():
    policy, data = get_domain("gridworld").policy(), trial("gridworld", "ros", (3,), episodes=400)
    total = int(data.ends[-1])
    cells = data.observations[:total, 0] * 4 + data.actions[:total, 0]
    counts = np.unique(cells, return_counts=True)[1]
    fit = score_regression(data, policy)
    assert fit.exact == (fit.unseen == 0 and counts.min() >= 2)
