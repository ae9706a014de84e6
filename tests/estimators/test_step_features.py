"""The features of a step: standardised, discounted, and few, however long the observation is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenroll.domains.catalogue import get_domain
from evenroll.estimators.action_part import Steps
from evenroll.estimators.step_features import MOST_OF_OBSERVATION, hidden_and_scores, principal, step_features
from tests.helpers import trial


def test_features_are_standardised_and_discounted() -> None:
    policy, data = get_domain("cartpole").policy(), trial("cartpole", episodes=30)
    steps = Steps(data, 10)
    hidden, scores = hidden_and_scores(policy, steps)
    discounted, own = step_features(steps, hidden)
    psi = discounted / steps.discount[:, None]
    assert scores.shape == (len(steps.t), 2)
    assert own == hidden.shape[1] + 1
    np.testing.assert_allclose(psi[:, own - 1], 1.0, rtol=1e-5)
    others = np.delete(psi, own - 1, axis=1)
    moving = others.std(axis=0) > 0.5
    assert moving[: own - 1].sum() > hidden.shape[1] // 2
    assert moving[own - 1 :].sum() > 15  # of 4 numbers, γᵗ and 15 products
    np.testing.assert_allclose(others[:, moving].mean(axis=0), 0.0, atol=1e-3)
    np.testing.assert_allclose(others[:, moving].std(axis=0), 1.0, rtol=1e-3)
    lively = hidden.std(axis=0) > 0.1
    for j in np.flatnonzero(lively):  # the policy's own features come first, in their order
        assert abs(np.corrcoef(psi[:, j], hidden[:, j])[0, 1]) > 0.999


def test_scores_have_mean_zero_under_the_policy() -> None:
    """The score of the action taken is 1 − π(a) for it and −π(a′) for the others: their sum over actions is 0."""
    policy, data = get_domain("cartpole").policy(), trial("cartpole", episodes=5)
    _, scores = hidden_and_scores(policy, Steps(data, 5))
    np.testing.assert_allclose(scores.sum(axis=1), 0.0, atol=1e-6)


def test_long_rows_are_seen_along_their_principal_directions() -> None:
    """Rows of 2,000 numbers that only move along three directions lose nothing, though they become 32 numbers."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(300, 3)) @ rng.normal(size=(3, 2000))).astype(np.float32)
    for width in (40, 2000):
        rows = principal(x[:, :width], MOST_OF_OBSERVATION)
        assert rows.shape == (300, MOST_OF_OBSERVATION)
        before, after = (z - z.mean(axis=0) for z in (x[:, :width], rows))
        np.testing.assert_allclose(np.linalg.norm(after, axis=1), np.linalg.norm(before, axis=1), rtol=1e-3)
    np.testing.assert_array_equal(principal(x[:, :8], 32), x[:, :8])


def test_an_observation_that_never_changes_drowns_nothing() -> None:
    """A flag or a goal that is the same at every step adds no feature that moves, and leaves all others as they are: the
    policy's own, the observation and its products."""
    policy, data = get_domain("cartpole").policy(), trial("cartpole", episodes=30)
    steps = Steps(data, 10)
    hidden, _ = hidden_and_scores(policy, steps)
    plain, own = step_features(steps, hidden)
    for constant in (1.0, -3e5, 1e-8):
        more = np.append(data.column("observations"), np.full((data.steps, 1), constant), axis=1)
        found, again = step_features(Steps(replace(data, observations=more), 10), hidden)
        assert again == own
        np.testing.assert_array_equal(found[:, :own], plain[:, :own])
        moving = [x[:, x.std(axis=0) > 1e-3] for x in (plain, found)]
        assert moving[0].shape == moving[1].shape
        np.testing.assert_allclose(moving[1], moving[0], rtol=1e-5, atol=1e-5)
