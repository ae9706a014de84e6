"""The features of every step that advantages and values are learnt from: few enough for any observation and any network."""

from __future__ import annotations

import numpy as np

from evenroll.estimators.action_part import Steps
from evenroll.policies import MLP, External

CHUNK = 2048  # steps that go through a network at once, so that what they leave behind stays in the cache
LONGEST_FOR_PRODUCTS = 8  # observations up to this long enter with all their products; a choice
# Longer observations and wider layers enter with this many principal components. More features do not help: what limits Â
# is the noise of its targets (docs/experiments-intervals.md).
MOST_OF_OBSERVATION, MOST_OF_LAYER = 32, 128
SOME = 4096  # steps that are enough to standardise by, and to find principal components


def hidden_and_scores(policy: MLP | External, steps: Steps) -> tuple[np.ndarray, np.ndarray]:
    """The last hidden features [N, features], in float32, and the scores of the actions [N, scores]."""
    distribution, N = policy.distribution, len(steps.t)
    if isinstance(policy, External):
        psi, outputs = steps.rollouts.column("features")[:N], steps.rollouts.column("outputs")[:N]
        return psi[:, :-1].astype(np.float32), distribution.scores(outputs, steps.actions)
    hidden, scores = [], []
    for a in range(0, N, CHUNK):
        part = policy.features(steps.observations[a : a + CHUNK])
        hidden.append(part[:, :-1].astype(np.float32))
        scores.append(distribution.scores(policy.outputs_of_features(part), steps.actions[a : a + CHUNK]))
    return np.concatenate(hidden), np.concatenate(scores)


def step_features(steps: Steps, hidden: np.ndarray) -> tuple[np.ndarray, int]:
    """γᵗ ψ(s_t, t), [N, m], in float32: hidden features, 1, observation, γᵗ, and products of the latter two.

    All but the 1 are standardised. Of long observations only the products with γᵗ enter. With ψ comes how many of its
    columns, the first, are the policy's own: the hidden features and the 1, which samplers balance.
    """
    some = slice(None, None, 1 + len(hidden) // SOME)
    hidden = principal(hidden, MOST_OF_LAYER, some)
    x = steps.observations
    scaled = (x / np.maximum(x[some].std(axis=0), 1e-12)).astype(np.float32)
    scaled = principal(scaled, MOST_OF_OBSERVATION, some)
    small = np.append(scaled, steps.discount[:, None].astype(np.float32), axis=1)
    i, j = np.triu_indices(small.shape[1])
    products = small[:, i] * small[:, j] if scaled.shape[1] <= LONGEST_FOR_PRODUCTS else small[:, :-1] * small[:, -1:]
    own = hidden.shape[1] + 1
    psi = np.concatenate([hidden, np.ones_like(small[:, :1]), small, products], axis=1)
    mean, spread = psi[some].mean(axis=0), psi[some].std(axis=0)
    mean[own - 1], spread[own - 1] = 0.0, 1.0
    psi -= mean
    psi *= np.where(spread > 1e-6 * spread.max(), 1.0 / np.maximum(spread, 1e-30), 0.0).astype(np.float32)
    psi *= steps.discount[:, None].astype(np.float32)
    return psi, own


def principal(x: np.ndarray, most: int, some: slice = slice(None)) -> np.ndarray:
    """The rows of x along their `most` principal directions, which some of the rows show. Narrow rows stay as they are."""
    if x.shape[1] <= most:
        return x
    part = x[some] - x[some].mean(axis=0)
    if x.shape[1] > 4 * most:  # a first, random projection keeps the cost linear in the width
        rng = np.random.default_rng(0)
        sketch = part.T @ (part @ rng.normal(size=(x.shape[1], 2 * most)).astype(np.float32))
        basis = np.linalg.qr(sketch)[0].astype(np.float32)
        axes = basis @ np.linalg.svd(part @ basis, full_matrices=False)[2].T
    else:
        axes = np.linalg.svd(part, full_matrices=False)[2].T
    return np.asarray(x @ axes[:, :most].astype(np.float32))
