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


def hidden_and_scores(policy: MLP | External, steps: Steps, rows: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
    """The last hidden features [N, features], in float32, and the scores [N, scores], of some of the steps."""
    distribution = policy.distribution
    first, last, _ = rows.indices(len(steps.t))
    if isinstance(policy, External):
        psi, outputs = (steps.rollouts.column(name)[first:last] for name in ("features", "outputs"))
        return psi[:, :-1].astype(np.float32), distribution.scores(outputs, steps.actions[first:last])
    hidden, scores = [], []
    for a in range(first, last, CHUNK):
        chunk = slice(a, min(a + CHUNK, last))
        part = policy.features(steps.observations[chunk])
        hidden.append(part[:, :-1].astype(np.float32))
        scores.append(distribution.scores(policy.outputs_of_features(part), steps.actions[chunk]))
    return np.concatenate(hidden), np.concatenate(scores)


class StepFeatures:
    """γᵗ ψ(s_t, t), in float32: hidden features, 1, observation, γᵗ, and products of the latter two.

    All but the 1 are standardised. Of long observations only the products with γᵗ enter. The first `own` of the features are
    the policy's own: the hidden ones and the 1, which samplers balance. What they are standardised by, and which directions
    of long rows are looked at, the steps tell that this is made from.
    """

    def __init__(self, steps: Steps, hidden: np.ndarray) -> None:
        """steps, hidden: the first len(hidden) of the steps, and the last hidden features there."""
        some = slice(None, None, 1 + len(hidden) // SOME)
        x = steps.observations[: len(hidden)]
        self.layer = directions(hidden, MOST_OF_LAYER, some)
        spread = x[some].std(axis=0)  # what does not vary (a flag, a goal) is left out: it would drown the rest
        varies = spread > 1e-6 * np.abs(x[some]).max(axis=0, initial=0.0)
        self.unit = np.where(varies, np.maximum(spread, 1e-12), np.inf)
        self.sight = directions((x / self.unit).astype(np.float32), MOST_OF_OBSERVATION, some)
        self.own = (hidden.shape[1] if self.layer is None else self.layer.shape[1]) + 1
        psi = self._raw(hidden[some], x[some], steps.discount[: len(hidden)][some])
        self.mean, spread = psi.mean(axis=0), psi.std(axis=0)
        self.mean[self.own - 1], spread[self.own - 1] = 0.0, 1.0
        moving = spread > 1e-6 * spread.max()
        self.scale = np.where(moving, 1.0 / np.maximum(spread, 1e-30), 0.0).astype(np.float32)

    def of(self, hidden: np.ndarray, observations: np.ndarray, discount: np.ndarray) -> np.ndarray:
        """The features of some steps, [N, m]."""
        psi = self._raw(hidden, observations, discount)
        psi -= self.mean
        psi *= self.scale
        psi *= discount[:, None].astype(np.float32)
        return psi

    def _raw(self, hidden: np.ndarray, observations: np.ndarray, discount: np.ndarray) -> np.ndarray:
        hidden = along(hidden, self.layer)
        scaled = along((observations / self.unit).astype(np.float32), self.sight)
        small = np.append(scaled, discount[:, None].astype(np.float32), axis=1)
        i, j = np.triu_indices(small.shape[1])
        products = small[:, i] * small[:, j] if scaled.shape[1] <= LONGEST_FOR_PRODUCTS else small[:, :-1] * small[:, -1:]
        return np.concatenate([hidden, np.ones_like(small[:, :1]), small, products], axis=1)


def step_features(steps: Steps, hidden: np.ndarray) -> tuple[np.ndarray, int]:
    """The features of all steps, [N, m], and how many of them are the policy's own."""
    features = StepFeatures(steps, hidden)
    return features.of(hidden, steps.observations, steps.discount), features.own


def principal(x: np.ndarray, most: int, some: slice = slice(None)) -> np.ndarray:
    """The rows of x along their `most` principal directions, which some of the rows show. Narrow rows stay as they are."""
    return along(x, directions(x, most, some))


def along(x: np.ndarray, axes: np.ndarray | None) -> np.ndarray:
    return x if axes is None else np.asarray(x @ axes)


def directions(x: np.ndarray, most: int, some: slice) -> np.ndarray | None:
    """The `most` principal directions of wide rows [width, most], which some of the rows show; None of narrow ones."""
    if x.shape[1] <= most:
        return None
    part = x[some] - x[some].mean(axis=0)
    if x.shape[1] > 4 * most:  # a first, random projection keeps the cost linear in the width
        rng = np.random.default_rng(0)
        sketch = part.T @ (part @ rng.normal(size=(x.shape[1], 2 * most)).astype(np.float32))
        basis = np.linalg.qr(sketch)[0].astype(np.float32)
        axes = basis @ np.linalg.svd(part @ basis, full_matrices=False)[2].T
    else:
        axes = np.linalg.svd(part, full_matrices=False)[2].T
    return np.asarray(axes[:, :most].astype(np.float32))
