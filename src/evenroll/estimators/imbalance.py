"""How far the actions of a data set are from balance, relative to what chance would leave in on-policy data.

Let S = Σ_t γᵗ score ⊗ ψ be the sum of the scores. Under on-policy sampling it has mean 0 and the covariance
K = Σ_t γ²ᵗ Var(score) ψψᵀ, so that SᵀK⁻¹S has the mean D, the number of directions that the data moves in. The *excess* is
their ratio. It is about 1 for on-policy data, less for balanced data, and more where some actions were taken too often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.engine.pace import patiently
from evenroll.policies import MLP, External, Policy, TabularSoftmax

CHUNK = 4096  # steps whose features are held at once
# The part of KL · sd(G) that is allowed for: biases of 0.08 to 0.3 of it were measured (docs/experiments-intervals.md,
# "Initial data of another policy").
QUADRATIC = 1.0 / 3.0


@dataclass(frozen=True)
class Imbalance:
    """What the scores of a data set add up to.

    excess      SᵀK⁻¹S / D, about 1 for on-policy data
    error       the standard deviation that the excess of on-policy data has by chance
    directions  D: how many scores can be out of balance. Features that always move together count once.
    """

    excess: float
    error: float
    directions: float

    @property
    def more_than_chance(self) -> bool:
        """Whether the data is surely farther from balance than on-policy data: beyond four of chance's deviations.

        At four, one on-policy data set in ten thousand would be called off; the distribution is skewed, as χ² is.
        """
        return self.excess > 1.0 + 4.0 * self.error


def imbalance(data: Rollouts, policy: Policy) -> Imbalance:
    """The excess of a data set, all its steps counted."""
    if isinstance(policy, TabularSoftmax):
        return _of_table(data, policy)
    assert isinstance(policy, MLP | External)
    return _of_network(data, policy)


def beyond_balance(data: Rollouts, policy: Policy) -> float:
    """How far initial data of another policy may shift the mean beyond what its imbalance tells, in deviations of a return.

    A behaviour that is δ away from the policy shifts the mean return by a part that is linear in δ, which the imbalance
    shows and new data makes up for, and by one that is quadratic: ½ δᵀ Cov(G, ssᵀ) δ, at most about KL · sd(G), where the KL
    is that of a whole episode; a third of that is allowed for (QUADRATIC). The KL is read off the excess of the initial
    data: 2 KL = (excess − 1) D / episodes, of which two of chance's deviations are left out. A table has no such part: its
    scores tell every action in every state apart.
    """
    if data.initial_episodes == 0 or isinstance(policy, TabularSoftmax):
        return 0.0
    found = imbalance(data.split_initial()[0], policy)
    surely = max(found.excess - 1.0 - 2.0 * found.error, 0.0) if math.isfinite(found.error) else 0.0
    return QUADRATIC * surely * found.directions / 2.0 / data.episodes


def _of_network(data: Rollouts, policy: MLP | External) -> Imbalance:
    """All kinds of scores share one K, as they do in `auto`.

    A ridge as large as one step's mean square keeps directions apart that the data hardly moves in. Each direction counts
    in D as far as it survives the ridge, so that the mean of the excess stays 1.
    """
    distribution, discounts = policy.distribution, _discounts(data)
    kinds, N = distribution.score_kinds, data.steps
    S: np.ndarray | float = 0.0
    K: np.ndarray | float = 0.0
    for a in range(0, N, CHUNK):
        part = slice(a, min(a + CHUNK, N))
        if isinstance(policy, External):
            psi, outputs = data.column("features")[part].astype(np.float64), data.column("outputs")[part]
        else:
            psi = policy.features(data.column("observations")[part]).astype(np.float64)
            outputs = policy.outputs_of_features(psi)
        weighted = discounts[part, None] * psi
        S = S + distribution.scores(outputs, data.column("actions")[part]).T @ weighted
        spread = distribution.variances(outputs).sum(axis=1) / kinds
        K = K + (weighted * spread[:, None]).T @ weighted
    power, axes = patiently(np.linalg.eigh, np.asarray(K))
    power = np.maximum(power, 0.0)
    ridge = max(float(power.sum()) / len(power) / max(N, 1), 1e-300)
    kept = power / (power + ridge)
    along = np.square(np.asarray(S) @ axes).sum(axis=0) / (power + ridge)
    directions = kinds * float(kept.sum())
    if directions <= 0.0:
        return Imbalance(0.0, math.inf, 0.0)
    return Imbalance(
        float(along.sum()) / directions, math.sqrt(2.0 * kinds * float(np.square(kept).sum())) / directions, directions
    )


def _of_table(data: Rollouts, policy: TabularSoftmax) -> Imbalance:
    """Σ (count − expected)²/(expected + 1) over all states and actions, relative to its mean in on-policy data.

    It is Pearson's χ² but for the 1 in the denominator, which has two reasons. An action that is expected once in a thousand
    data sets would rule χ² whenever it comes up. And how often a state is met depends on the actions taken there: where it
    was met only a few times, a denominator that follows the visits would pull the mean below 1.
    """
    states = data.column("observations")[:, 0].astype(np.int64)
    actions = data.column("actions")[:, 0].astype(np.int64)
    n_states, n_actions = policy.table.shape
    counts = np.bincount(states * n_actions + actions, minlength=n_states * n_actions).reshape(n_states, n_actions)
    expected = counts.sum(axis=1, keepdims=True) * policy.table
    variance = expected * (1.0 - policy.table)
    directions = float((variance / (expected + 1.0)).sum())
    if directions <= 0.0:
        return Imbalance(0.0, math.inf, 0.0)
    square = float(((counts - expected) ** 2 / (expected + 1.0)).sum())
    # The variance of (count − expected)² is v + 2v², as for a Poisson count of variance v.
    spread = float(((variance + 2.0 * variance**2) / (expected + 1.0) ** 2).sum())
    return Imbalance(square / directions, math.sqrt(spread) / directions, directions)


def _discounts(data: Rollouts) -> np.ndarray:
    lengths = np.append(data.lengths, data.steps - int(data.lengths.sum()))
    t = np.arange(data.steps) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(data.gamma ** t.astype(np.float64))
