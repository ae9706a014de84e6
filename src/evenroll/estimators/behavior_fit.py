"""π̂, the maximum-likelihood policy of the data: for a table it counts, for a network it fits the last layer.

The authors of the paper take at least 1,000 steps of Adam from θ_e, which stops short of the optimum at small budgets.
Here Newton's method goes to the optimum, so that early KL curves lie above the published ones. It starts at θ_e, which is
as near to the optimum as the optimum of half the data would be. So nothing is carried from checkpoint to checkpoint.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Protocol

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.engine.thin_matrices import apply, column_counts, column_sums, solve_positive, weighted_gram
from evenroll.errors import DataError
from evenroll.policies import MLP, Policy, TabularSoftmax
from evenroll.policies.distributions import (
    MEAN_LINKS,
    SCALE_LINKS,
    Gaussian,
    Link,
    log_softmax,
    normal_log_density,
    softmax,
)

ITERATIONS = 300  # a limit for data on which Newton's method does not settle; a choice
CLOSE = 1e-3  # a Newton step that gains at most this much log-likelihood (in nats, over all steps) is the last
NOTICEABLE = 0.05  # a step's weight in the curvature is renewed if it changed by this share, so errors shrink by this factor
RIDGE = 1e-9  # relative to each parameter's own curvature; it is needed for features that never fire or are collinear


def table_cells(policy: TabularSoftmax, rollouts: Rollouts) -> tuple[np.ndarray, np.ndarray]:
    """Which state and which action every step has, as numbers of the table's rows and columns."""
    states = rollouts.column("observations")[:, 0].astype(np.int64)
    actions = rollouts.column("actions")[:, 0].astype(np.int64)
    return states, actions


def policy_features(policy: MLP, rollouts: Rollouts) -> np.ndarray:
    """ψ [N, F]: the last hidden activations and a constant 1. They are taken from the rollouts if these carry them."""
    if rollouts.features is not None:
        return rollouts.features
    return policy.features(rollouts.column("observations"))


def with_features(rollouts: Rollouts, policy: Policy) -> Rollouts:
    """The same rollouts carrying the policy's features, so that prefixes of one trial share them."""
    return dataclasses.replace(rollouts, features=policy_features(policy, rollouts)) if isinstance(policy, MLP) else rollouts


def with_fit(rollouts: Rollouts, policy: Policy) -> Rollouts:
    """The same rollouts carrying log π̂ of every step, so that everything that needs it shares one fit."""
    return dataclasses.replace(rollouts, log_fit=fitted_log_probs(policy, rollouts))


def fitted_log_probs(policy: Policy, rollouts: Rollouts) -> np.ndarray:
    """log π̂(a_t|s_t) for every recorded step, the unfinished trajectory included."""
    if rollouts.log_fit is not None:
        return rollouts.log_fit
    actions = rollouts.column("actions")
    if len(actions) == 0:
        return np.zeros(0)
    if isinstance(policy, TabularSoftmax):
        states, choices = table_cells(policy, rollouts)
        counts = np.zeros(policy.table.shape)
        np.add.at(counts, (states, choices), 1.0)
        return np.asarray(np.log(counts[states, choices] / counts.sum(axis=1)[states]))
    if not isinstance(policy, MLP):
        raise DataError(f"a maximum-likelihood fit of {type(policy).__name__} is not known")
    psi = policy_features(policy, rollouts)
    if policy.n_actions is not None:
        head = policy.head_matrix
        model = SoftmaxHead(psi, actions[:, 0].astype(np.int64), policy.n_actions)
        return maximise(model, (head[:, 1:] - head[:, :1]).T.ravel())
    return np.sum([_fit_gaussian(policy, psi, actions[:, i], i) for i in range(policy.action_dim)], axis=0)


def _fit_gaussian(policy: MLP, psi: np.ndarray, actions: np.ndarray, dimension: int) -> np.ndarray:
    """log π̂ of one dimension of the actions; the dimensions are independent of each other."""
    distribution = policy.distribution
    assert isinstance(distribution, Gaussian)
    if policy.log_std is not None:
        mean = policy.head_matrix[:, dimension]
        phi, scale = np.ones((len(psi), 1)), policy.log_std[dimension : dimension + 1]
    else:
        mean = policy.head_matrix[:, 2 * dimension]
        phi, scale = psi, policy.head_matrix[:, 2 * dimension + 1]
    links = MEAN_LINKS[distribution.mean], SCALE_LINKS[distribution.scale]
    return maximise(GaussianHead(psi, phi, actions, *links), np.append(mean, scale))


# ---- likelihoods ---------------------------------------------------------------------------------------------


class Likelihood(Protocol):
    """log p(a_t|ψ_t; x) of every step, and the derivatives of the sum.

    `log_probs` also returns `at`, the intermediate results that the derivatives need. The curvature is made of Gram
    matrices Σ_t w_t ψψᵀ, one for every design matrix ψ and set of weights w. The `blocks` stand along its diagonal, in the
    order of the parameters. If the likelihood is not bounded, each Gram matrix is such a block.

    bounded  whether Σ log p has an upper bound whatever the data
    """

    bounded: ClassVar[bool]

    @property
    def designs(self) -> list[np.ndarray]: ...
    def log_probs(self, x: np.ndarray) -> tuple[np.ndarray, Any]: ...
    def gradient(self, at: Any) -> np.ndarray: ...
    def weights(self, at: Any) -> list[np.ndarray]: ...
    def blocks(self, grams: list[np.ndarray]) -> list[np.ndarray]: ...


@dataclasses.dataclass(frozen=True)
class SoftmaxHead:
    """log softmax(0, Wψ)[a], where x = W [actions − 1, features] is relative to the first action. It is concave in W.

    Where the data can be separated, the supremum of the likelihood is approached but not reached.
    """

    bounded: ClassVar[bool] = True
    psi: np.ndarray
    actions: np.ndarray
    n: int

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return [(i, j) for i in range(1, self.n) for j in range(i, self.n)]

    @property
    def designs(self) -> list[np.ndarray]:
        return [self.psi] * len(self.pairs)

    def log_probs(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits = np.zeros((self.n, len(self.psi)))
        logits[1:] = apply(self.psi, x.reshape(self.n - 1, -1).T).T
        return log_softmax(logits.T)[np.arange(len(self.psi)), self.actions], softmax(logits.T).T

    def gradient(self, at: np.ndarray) -> np.ndarray:
        """Σ (1{a} − p) ⊗ ψ."""
        return np.concatenate([column_sums(self.psi, (self.actions == i) - at[i]) for i in range(1, self.n)])

    def weights(self, at: np.ndarray) -> list[np.ndarray]:
        """diag p − ppᵀ."""
        return [at[i] * ((i == j) - at[j]) for i, j in self.pairs]

    def blocks(self, grams: list[np.ndarray]) -> list[np.ndarray]:
        m, free = self.psi.shape[1], self.n - 1
        H = np.empty((free, m, free, m))
        for (i, j), gram in zip(self.pairs, grams, strict=True):
            H[i - 1, :, j - 1] = H[j - 1, :, i - 1] = gram
        return [H.reshape(m * free, m * free)]


@dataclasses.dataclass(frozen=True)
class GaussianHead:
    """log N(a; mean(ψw), scale(φu)²), where x = (w, u), with the policy's link functions.

    It is not concave in x, but smooth near θ_e. φ is ψ again, or a constant where the scale does not depend on the state.
    A policy's softplus scale has a floor; the fit's has none, and with few steps in the data it comes to lie below it.
    """

    bounded: ClassVar[bool] = False
    psi: np.ndarray
    phi: np.ndarray
    actions: np.ndarray
    mean: Link
    scale: Link

    @property
    def designs(self) -> list[np.ndarray]:
        return [self.psi, self.phi]

    def log_probs(self, x: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        m = self.psi.shape[1]
        if self.phi is self.psi:  # one pass over the rows, which is what takes the time
            raw_mean, raw_scale = apply(self.psi, x.reshape(2, m).T).T
        else:
            raw_mean, raw_scale = apply(self.psi, x[:m, None])[:, 0], apply(self.phi, x[m:, None])[:, 0]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # after a step too far the likelihood is nan
            mean, scale = self.mean.of(raw_mean), self.scale.of(raw_scale)
            z = (self.actions - mean) / scale
            slopes = self.mean.slope(mean) / scale, self.scale.slope(scale) / scale
            return normal_log_density(z, np.log(scale)), (z, *slopes)

    def gradient(self, at: tuple[np.ndarray, ...]) -> np.ndarray:
        z, by_mean, by_scale = at
        return np.concatenate([column_sums(self.psi, by_mean * z), column_sums(self.phi, by_scale * (z**2 - 1.0))])

    def weights(self, at: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        """The expected curvature (Fisher scoring), in which mean and scale do not mix."""
        return [at[1] ** 2, 2.0 * at[2] ** 2]

    def blocks(self, grams: list[np.ndarray]) -> list[np.ndarray]:
        return grams


# ---- Newton's method -----------------------------------------------------------------------------------------


def maximise(model: Likelihood, start: np.ndarray) -> np.ndarray:
    """log p of every step at the maximum of Σ_t log p_t − ½ Σ_j prior_j (x_j − start_j)²."""
    x = start
    log_p, at = model.log_probs(x)
    if not np.isfinite(log_p.sum()):  # a sampler ran away so far that π_e has no density left there
        return log_p
    curvature = Curvature(model, at)
    prior = curvature.prior
    for _ in range(ITERATIONS):
        gradient = model.gradient(at) - prior * (x - start)
        step = curvature.solve(gradient)
        height = _height(log_p, prior, x - start)
        for halvings in range(100):  # many are needed where θ_e is all but certain and the data is not
            further = x + step / 2.0**halvings
            log_p_there, there = model.log_probs(further)
            if _height(log_p_there, prior, further - start) >= height:
                break
        else:
            break  # rounding lets it go no higher
        x, log_p, at = further, log_p_there, there
        if gradient @ step < CLOSE:
            break
        curvature.update(at)
    return log_p


def _height(log_p: np.ndarray, prior: np.ndarray, away: np.ndarray) -> float:
    return float(log_p.sum() - 0.5 * prior @ away**2)


class Curvature:
    """The matrix of second derivatives, kept up to date only in the steps whose weight has changed noticeably.

    prior  [parameters]: the curvature at θ_e of the steps that each parameter is given for free. Where the likelihood has
           a bound, there are none. Where it has none, each parameter is given one step on which its feature fires. Without
           that step the likelihood would be infinite as long as some feature has fired only once, because a Gaussian of no
           width fits that one action. Among many features there is such a feature for most of a trial.
    """

    def __init__(self, model: Likelihood, at: Any) -> None:
        self.model, self.weights = model, model.weights(at)
        self.grams = [weighted_gram(x, w) for x, w in zip(model.designs, self.weights, strict=True)]
        self.prior = np.zeros(sum(map(len, model.blocks(self.grams))))
        if not model.bounded:
            fired = np.concatenate([column_counts(x) for x in model.designs])
            self.prior = np.concatenate([np.diag(g) for g in self.grams]) / np.maximum(fired, 1.0)

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """The Newton step."""
        steps, done = [], 0
        for block in self.model.blocks(self.grams):
            part = slice(done, done := done + len(block))
            steps.append(solve_positive(block + np.diag(self.prior[part]), gradient[part, None], RIDGE)[:, 0])
        return np.concatenate(steps)

    def update(self, at: Any) -> None:
        for x, old, new, gram in zip(self.model.designs, self.weights, self.model.weights(at), self.grams, strict=True):
            rows = np.flatnonzero(np.abs(new - old) > NOTICEABLE * np.abs(old))
            gram += weighted_gram(x[rows], new[rows] - old[rows])
            old[rows] = new[rows]
