"""π̂, the maximum-likelihood policy of the data: for a table it counts, for a network it fits the last layer.

The authors of the paper take at least 1,000 steps of Adam from θ_e, which stops short of the optimum at small budgets.
Here Newton's method goes to the optimum, so that early KL curves lie above the published ones. It starts at θ_e, which is
as near to the optimum as the optimum of half the data would be. So no fit depends on that of an earlier checkpoint, and
what is computed at θ_e serves all checkpoints.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.engine.thin_matrices import column_counts, solve_positive, weighted_gram
from evenroll.errors import DataError
from evenroll.estimators.head_passes import gaussian_pass, softmax_pass
from evenroll.policies import MLP, Policy, TabularSoftmax
from evenroll.policies.distributions import Gaussian

ITERATIONS = 300  # a limit for data on which Newton's method does not settle; a choice
CLOSE = 1e-2  # a Newton step that gains at most this much log-likelihood (in nats, of 60 to 130 in all) is the last
NOTICEABLE = 0.05  # a step's weight in the curvature is renewed if it changed by this share, so errors shrink by this factor
CANCELLED = 1e-9  # what may be left of a curvature; of less the rounding errors of what went would be a noticeable part
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
    (log_fit,) = fits_of_beginnings(policy, rollouts, [len(rollouts.column("actions"))])
    return log_fit


def fits_of_beginnings(policy: Policy, rollouts: Rollouts, lengths: Sequence[int]) -> Iterator[np.ndarray]:
    """log π̂ [n] of the first n recorded steps, where π̂ is fitted to these alone, for each n of `lengths`, in rising order.

    All fits start at θ_e. What is known there of the beginning of the data is kept for the next one, which is longer.
    """
    actions = rollouts.column("actions")
    if isinstance(policy, TabularSoftmax):
        states, choices = table_cells(policy, rollouts)
        yield from (_table_fit(states[:n], choices[:n], policy.table.shape) for n in lengths)
    elif isinstance(policy, MLP):
        psi = policy_features(policy, rollouts)
        fits = [_fits(model, start, lengths) for model, start in _heads(policy, psi, actions)]
        yield from (np.sum(parts, axis=0) for parts in zip(*fits, strict=True))  # dimensions are independent of each other
    else:
        raise DataError(f"a maximum-likelihood fit of {type(policy).__name__} is not known")


def _table_fit(states: np.ndarray, choices: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    counts = np.bincount(np.ravel_multi_index((states, choices), shape), minlength=shape[0] * shape[1]).reshape(shape)
    return np.asarray(np.log(counts[states, choices] / counts.sum(axis=1)[states]))


def _heads(policy: MLP, psi: np.ndarray, actions: np.ndarray) -> Iterator[tuple[Likelihood, np.ndarray]]:
    """The likelihood of the last layer, and its parameters at θ_e: one for discrete actions, or one for each dimension."""
    if policy.n_actions is not None:
        head = policy.head_matrix
        yield SoftmaxHead(psi, actions[:, 0], policy.n_actions), (head[:, 1:] - head[:, :1]).T.ravel()
        return
    distribution, tied = policy.distribution, policy.log_std is None
    assert isinstance(distribution, Gaussian)
    for i in range(policy.action_dim):
        column = 2 * i if tied else i
        scale = policy.log_std[i : i + 1] if policy.log_std is not None else policy.head_matrix[:, column + 1]
        model = GaussianHead(psi, np.ascontiguousarray(actions[:, i]), tied, distribution.mean, distribution.scale)
        yield model, np.append(policy.head_matrix[:, column], scale)


def _fits(model: Likelihood, start: np.ndarray, lengths: Sequence[int]) -> Iterator[np.ndarray]:
    place, curvature, done = None, None, 0
    for n in lengths:
        if n > done:
            more = model.rows(done, n)
            there = more.at(start)
            added = Curvature.of(more, there)
            place = there if place is None else place.followed_by(there)
            curvature = added if curvature is None else curvature.followed_by(added)
            done = n
        yield np.zeros(0) if place is None or curvature is None else maximise(model.rows(0, n), start, place, curvature)


# ---- likelihoods ---------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A likelihood at some parameters: log p of every step, the gradient of its sum, and what the curvature is made of."""

    log_p: np.ndarray
    gradient: np.ndarray
    parts: tuple[np.ndarray, ...]

    def followed_by(self, more: Place) -> Place:
        """The same for these steps and further ones."""
        parts = tuple(np.concatenate(pair, axis=-1) for pair in zip(self.parts, more.parts, strict=True))
        return Place(np.append(self.log_p, more.log_p), self.gradient + more.gradient, parts)


class Likelihood(Protocol):
    """log p(a_t|ψ_t; x) of every step, and the derivatives of the sum.

    The curvature is made of Gram matrices Σ_t w_t ψψᵀ, one for every design matrix ψ and set of weights w. The `blocks`
    stand along its diagonal, in the order of the parameters. If the likelihood is not bounded, each Gram matrix is such a
    block.

    bounded  whether Σ log p has an upper bound whatever the data
    """

    bounded: ClassVar[bool]

    @property
    def designs(self) -> list[np.ndarray]: ...
    def rows(self, first: int, last: int) -> Likelihood: ...
    def at(self, x: np.ndarray) -> Place: ...
    def weights(self, place: Place) -> list[np.ndarray]: ...
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

    def rows(self, first: int, last: int) -> SoftmaxHead:
        return dataclasses.replace(self, psi=self.psi[first:last], actions=self.actions[first:last])

    def at(self, x: np.ndarray) -> Place:
        """The gradient is Σ (1{a} − p) ⊗ ψ, and the parts are p."""
        log_p, p, gradient = softmax_pass(self.psi, self.actions, x.reshape(self.n - 1, -1))
        return Place(log_p, gradient.ravel(), (p,))

    def weights(self, place: Place) -> list[np.ndarray]:
        """diag p − ppᵀ."""
        (p,) = place.parts
        return [p[i] * ((i == j) - p[j]) for i, j in self.pairs]

    def blocks(self, grams: list[np.ndarray]) -> list[np.ndarray]:
        m, free = self.psi.shape[1], self.n - 1
        H = np.empty((free, m, free, m))
        for (i, j), gram in zip(self.pairs, grams, strict=True):
            H[i - 1, :, j - 1] = H[j - 1, :, i - 1] = gram
        return [H.reshape(m * free, m * free)]


@dataclasses.dataclass(frozen=True)
class GaussianHead:
    """log N(a; mean(ψw), scale²), where scale(ψu) depends on the state or scale(u) does not; x = (w, u).

    It is not concave in x, but smooth near θ_e. A policy's softplus scale has a floor; the fit's has none, and with few
    steps in the data it comes to lie below it.

    tied         whether the scale depends on the state
    mean, scale  the names of the policy's link functions
    """

    bounded: ClassVar[bool] = False
    psi: np.ndarray
    actions: np.ndarray
    tied: bool
    mean: str
    scale: str

    @property
    def designs(self) -> list[np.ndarray]:
        return [self.psi, self.psi if self.tied else np.ones((len(self.psi), 1))]

    def rows(self, first: int, last: int) -> GaussianHead:
        return dataclasses.replace(self, psi=self.psi[first:last], actions=self.actions[first:last])

    def at(self, x: np.ndarray) -> Place:
        """The parts are mean'/scale and scale'/scale, where primes are derivatives of the links."""
        tanh, softplus = self.mean == "tanh", self.scale == "softplus"
        log_p, by_mean, by_scale, gradient = gaussian_pass(self.psi, self.actions, x, self.tied, tanh, softplus)
        return Place(log_p, gradient, (by_mean, by_scale))

    def weights(self, place: Place) -> list[np.ndarray]:
        """The expected curvature (Fisher scoring), in which mean and scale do not mix."""
        by_mean, by_scale = place.parts
        return [by_mean**2, 2.0 * by_scale**2]

    def blocks(self, grams: list[np.ndarray]) -> list[np.ndarray]:
        return grams


# ---- Newton's method -----------------------------------------------------------------------------------------


def maximise(
    model: Likelihood, start: np.ndarray, place: Place | None = None, curvature: Curvature | None = None
) -> np.ndarray:
    """log p of every step at the maximum of Σ_t log p_t − ½ Σ_j prior_j (x_j − start_j)².

    place, curvature  what is known at `start`; if it is not given, it is computed
    """
    x, place = start, model.at(start) if place is None else place
    if not np.isfinite(place.log_p.sum()):  # a sampler ran away so far that π_e has no density left there
        return place.log_p
    curvature = Curvature.of(model, place) if curvature is None else curvature.copy()
    prior = np.zeros(len(start)) if model.bounded else curvature.prior()
    for _ in range(ITERATIONS):
        gradient = place.gradient - prior * (x - start)
        step = _newton_step(model.blocks(curvature.grams), prior, gradient)
        height = _height(place, prior, x - start)
        for halvings in range(100):  # many are needed where θ_e is all but certain and the data is not
            further = x + step / 2.0**halvings
            there = model.at(further)
            if _height(there, prior, further - start) >= height:
                break
        else:
            break  # rounding lets it go no higher
        x, place = further, there
        if gradient @ step < CLOSE:
            break
        curvature.update(model, place)
    return place.log_p


def _height(place: Place, prior: np.ndarray, away: np.ndarray) -> float:
    return float(place.log_p.sum() - 0.5 * prior @ away**2)


def _newton_step(blocks: list[np.ndarray], prior: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    steps, done = [], 0
    for block in blocks:
        part = slice(done, done := done + len(block))
        steps.append(solve_positive(block + np.diag(prior[part]), gradient[part, None], RIDGE)[:, 0])
    return np.concatenate(steps)


@dataclasses.dataclass
class Curvature:
    """The second derivatives, kept up to date only in the steps whose weight has changed noticeably.

    grams    Σ_t w_t ψψᵀ of every design
    weights  w_t of every design
    fired    [parameters]: on how many steps each parameter's feature is not zero
    """

    grams: list[np.ndarray]
    weights: list[np.ndarray]
    fired: np.ndarray

    @classmethod
    def of(cls, model: Likelihood, place: Place) -> Curvature:
        weights = model.weights(place)
        grams = [weighted_gram(x, w) for x, w in zip(model.designs, weights, strict=True)]
        return cls(grams, weights, np.concatenate([column_counts(x) for x in model.designs]))

    def copy(self) -> Curvature:
        return Curvature([gram.copy() for gram in self.grams], [w.copy() for w in self.weights], self.fired)

    def followed_by(self, more: Curvature) -> Curvature:
        """The same for these steps and further ones."""
        grams = [a + b for a, b in zip(self.grams, more.grams, strict=True)]
        weights = [np.append(a, b) for a, b in zip(self.weights, more.weights, strict=True)]
        return Curvature(grams, weights, self.fired + more.fired)

    def prior(self) -> np.ndarray:
        """[parameters]: the curvature, at θ_e, of one step for each parameter, which the parameters are given for free.

        Where a likelihood has no upper bound, each parameter is given one step on which its feature fires. Without that step
        the likelihood would be infinite as long as some feature has fired only once, because a Gaussian of no width fits
        that one action. Among many features there is such a feature for most of a trial.
        """
        return np.asarray(np.concatenate([np.diag(gram) for gram in self.grams]) / np.maximum(self.fired, 1.0))

    def update(self, model: Likelihood, place: Place) -> None:
        for x, old, new, gram in zip(model.designs, self.weights, model.weights(place), self.grams, strict=True):
            rows = np.flatnonzero(np.abs(new - old) > NOTICEABLE * np.abs(old))
            before = np.diag(gram).copy()
            gram += weighted_gram(x[rows], new[rows] - old[rows])
            old[rows] = new[rows]
            if (np.diag(gram) < CANCELLED * before).any():
                gram[:] = weighted_gram(x, old)
