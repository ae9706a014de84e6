"""Fitted Q-evaluation in closed form: on a table, or linear in the policy's own features.

The dynamics do not change with time, but what is still to come does: a trajectory ends after `horizon` steps. So one
model is fitted to all steps, and Q_h(s, a), the value of an action with h steps to go, follows by recursion:

    Q_0 = 0,   Q_h(s, a) = r̂(s, a) + γ Σ_{s'} p̂(s'|s, a) Σ_{a'} π_e(a'|s') Q_{h−1}(s', a'),   h = 1 … horizon

This is the linear system with time in the state, solved from its end. Without a horizon, Q = r̂ + γ P̂ π_e Q is solved.

The observation after a trajectory's last step is not recorded. After termination there is none. At the horizon (h = 1) none
is needed, but that step may not tell p̂ anything either: it would count if the trajectory happened to terminate there, and
not otherwise. Only finished trajectories are used.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.engine.thin_matrices import apply, solve_positive, weighted_gram, weighted_product
from evenroll.errors import DataError, NoEstimate
from evenroll.estimators.behavior_fit import policy_features, table_cells
from evenroll.estimators.importance import finished
from evenroll.policies import MLP, Policy, TabularSoftmax
from evenroll.policies.distributions import Categorical

# Ridges relative to each feature's own sum of squares. The first one with which the values do not run away is taken.
RIDGES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)


class QFunction(Protocol):
    """Action values with the time in them."""

    def along(self, rollouts: Rollouts) -> tuple[np.ndarray, np.ndarray]:
        """Q_t(s_t, a_t) and V_t(s_t) = Σ_a π_e(a|s_t) Q_t(s_t, a), of every step of the finished trajectories."""


def fitted_q_evaluation(rollouts: Rollouts, policy: Policy) -> float:
    """FQE(D) = (1/n) Σᵢ V̂_0(s_0ⁱ), V̂_t(s) = Σ_a π_e(a|s) Q̂_t(s, a)."""
    return start_value(values_along(rollouts, policy)[1], rollouts)


def fit_q(rollouts: Rollouts, policy: Policy) -> QFunction:
    """Q̂ on a table, or linear in the policy's features."""
    finished(rollouts)
    if isinstance(policy, TabularSoftmax):
        return fit_table(rollouts, policy)
    if isinstance(policy, MLP):
        return fit_linear(rollouts, policy)
    raise DataError(f"{type(policy).__name__} has neither a table nor features to fit Q on; use fqe-net")


def values_along(rollouts: Rollouts, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
    """Q̂_t(s_t, a_t) and V̂_t(s_t) of every step of the finished trajectories, from the rollouts if they carry them."""
    return rollouts.q_fit or fit_q(rollouts, policy).along(rollouts)


def with_q(rollouts: Rollouts, policy: Policy) -> Rollouts:
    """The same rollouts carrying Q̂ and V̂, so that everything that needs them shares one fit."""
    return dataclasses.replace(rollouts, q_fit=values_along(rollouts, policy))


def start_value(v: np.ndarray, rollouts: Rollouts) -> float:
    """The mean of V̂_0 over the first states of the finished trajectories, where v is V̂_t(s_t) of every step."""
    finished(rollouts)
    starts = np.concatenate([[0], rollouts.ends[:-1]])
    value = float(v[starts].mean())
    if not np.isfinite(value):
        raise NoEstimate("the data has a state on the way in which it takes no action the evaluation policy would take")
    return value


# ---- what the data says about time and successors ------------------------------------------------------------


@dataclass(frozen=True)
class Transitions:
    """The steps of the finished trajectories: their time, and which of them tell what comes next.

    going  the rows that are followed by another step; the successor of such a row is row + 1
    over   the rows after which the trajectory terminated, before the horizon
    """

    times: np.ndarray
    going: np.ndarray
    over: np.ndarray
    horizon: int | None


def steps_of(rollouts: Rollouts) -> Transitions:
    """The transitions of some rollouts.

    The horizon is the recorded one, or the length at which trajectories were truncated. Without either there is none.
    """
    lengths, ends = rollouts.lengths, rollouts.ends
    horizon = rollouts.horizon
    if horizon is None and rollouts.truncated:
        horizon = int(lengths[~rollouts.terminated].max())
    if horizon is not None and lengths.max() > horizon:
        raise DataError(f"trajectory {np.argmax(lengths)} has {lengths.max()} steps, more than the horizon, {horizon}")
    total = int(ends[-1])
    times = np.arange(total) - np.repeat(ends - lengths, lengths)
    last = np.zeros(total, dtype=bool)
    last[ends - 1] = True
    before = rollouts.terminated & (True if horizon is None else lengths < horizon)
    return Transitions(times, np.flatnonzero(~last), ends[before] - 1, horizon)


# ---- on a table ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableQ:
    """q [horizon + 1, states, actions] and v [horizon + 1, states] by steps to go. Without a horizon they have one entry."""

    q: np.ndarray
    v: np.ndarray
    policy: TabularSoftmax

    def along(self, rollouts: Rollouts) -> tuple[np.ndarray, np.ndarray]:
        times = steps_of(rollouts).times
        states, actions = (x[: len(times)] for x in table_cells(self.policy, rollouts))
        to_go = len(self.q) - 1 - times if len(self.q) > 1 else np.zeros_like(times)
        return self.q[to_go, states, actions], self.v[to_go, states]


def fit_table(rollouts: Rollouts, policy: TabularSoftmax) -> TableQ:
    """The fit takes mean rewards as r̂, and frequencies as p̂.

    Actions that were never taken in a state leave its value to the others: π_e is renormalised over the actions that were
    taken. A state where π_e would take none of them has the value nan.
    """
    from scipy import sparse

    steps = steps_of(rollouts)
    total = len(steps.times)
    states, actions = (x[:total] for x in table_cells(policy, rollouts))
    S, A = policy.table.shape
    cells = states * A + actions
    visits = np.bincount(cells, minlength=S * A)
    r = np.bincount(cells, rollouts.column("rewards")[:total], minlength=S * A) / np.maximum(visits, 1)
    moves = np.bincount(cells[steps.going], minlength=S * A) + np.bincount(cells[steps.over], minlength=S * A)
    frequency = 1.0 / moves[cells[steps.going]]
    P = sparse.coo_array((frequency, (cells[steps.going], states[steps.going + 1])), shape=(S * A, S)).tocsr()

    tried = (moves > 0).reshape(S, A)
    tried |= (visits > 0).reshape(S, A) & ~tried.any(axis=1, keepdims=True)  # states that were met at the horizon only
    pi = np.where(tried, policy.table, 0.0)
    with np.errstate(invalid="ignore"):
        pi /= pi.sum(axis=1, keepdims=True)

    def value(q: np.ndarray) -> np.ndarray:
        return np.asarray(np.where(pi == 0.0, 0.0, pi * q).sum(axis=1))

    if steps.horizon is None:
        q = (r + rollouts.gamma * (P @ _stationary(P, pi, value(r.reshape(S, A)), rollouts.gamma))).reshape(S, A)
        return TableQ(q[None], value(q)[None], policy)
    Q, V = np.zeros((steps.horizon + 1, S, A)), np.zeros((steps.horizon + 1, S))
    for h in range(1, steps.horizon + 1):
        Q[h] = (r + rollouts.gamma * (P @ V[h - 1])).reshape(S, A)
        V[h] = value(Q[h])
    return TableQ(Q, V, policy)


def _stationary(P: Any, pi: np.ndarray, r: np.ndarray, gamma: float) -> np.ndarray:
    """The V with V = r + γ P_π V. It is nan wherever a state with r = nan can be reached."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    S, A = pi.shape
    mix = sparse.csr_array((np.nan_to_num(pi).ravel(), np.arange(S * A), np.arange(0, S * A + 1, A)), shape=(S, S * A))
    try:
        system = splu(sparse.csc_array(sparse.eye_array(S) - gamma * (mix @ P)))
    except RuntimeError:
        raise NoEstimate("under the evaluation policy the fitted model has states it never leaves, and γ = 1") from None
    open_ends = system.solve(np.isnan(r).astype(float))
    return np.asarray(np.where(open_ends > 0.0, np.nan, system.solve(np.nan_to_num(r))))


# ---- linear in features --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ActionBasis:
    """Functions of the action, h(s, a) [k], and their means under π_e, h̄(s) = Σ_a π_e(a|s) h(s, a).

    For discrete actions h is 1{a}, and h̄ = π_e. For Gaussian actions h is 1 and the scores of the action, whose means
    are 0, so that h̄ = (1, 0, …).
    """

    policy: MLP

    def values(self, psi: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """h of every step, [N, k]."""
        if self.policy.n_actions is not None:
            return np.asarray(np.eye(self.policy.n_actions)[actions[:, 0].astype(np.int64)])
        scores = self.policy.distribution.scores(outputs_of(self.policy, psi), actions)
        return np.append(np.ones((len(scores), 1)), scores, axis=1)

    def means(self, psi: np.ndarray) -> np.ndarray:
        """h̄ of every step, [N, k]."""
        distribution = self.policy.distribution
        if isinstance(distribution, Categorical):
            return distribution.probabilities(outputs_of(self.policy, psi))
        h = np.zeros((len(psi), 1 + distribution.score_kinds))
        h[:, 0] = 1.0
        return h


def outputs_of(policy: MLP, psi: np.ndarray) -> np.ndarray:
    """The policy's outputs [N, outputs] from its features ψ [N, F + 1]."""
    return policy.outputs_of_rows(apply(psi, policy.head_matrix))


@dataclass(frozen=True)
class LinearQ:
    """Q_h(s, a) = h(s, a)ᵀ W_h ψ(s), W [horizon + 1, k, F] by steps to go. Without a horizon W has one entry."""

    weights: np.ndarray
    policy: MLP

    def along(self, rollouts: Rollouts) -> tuple[np.ndarray, np.ndarray]:
        times = steps_of(rollouts).times
        psi, basis = policy_features(self.policy, rollouts)[: len(times)], ActionBasis(self.policy)
        actions = rollouts.column("actions")[: len(times)]
        to_go = len(self.weights) - 1 - times if len(self.weights) > 1 else np.zeros_like(times)
        parts = np.empty((len(times), self.weights.shape[1]))
        order = np.argsort(to_go, kind="stable")
        bounds = np.searchsorted(to_go[order], np.arange(len(self.weights) + 1))
        for h in np.flatnonzero(np.diff(bounds)):
            rows = order[bounds[h] : bounds[h + 1]]
            parts[rows] = apply(psi[rows], self.weights[h].T)
        return (basis.values(psi, actions) * parts).sum(axis=1), (basis.means(psi) * parts).sum(axis=1)


def fit_linear(rollouts: Rollouts, policy: MLP) -> LinearQ:
    """Least squares with features φ = h ⊗ ψ: r̂ = φᵀρ, and p̂ as the linear map M of φ to the next step's mean φ̄ = h̄ ⊗ ψ:

        w_h = ρ + γ M w_{h−1},   ρ = (ΦᵀΦ)⁻¹ Φᵀr,   M = (ΦᵀΦ)⁻¹ ΦᵀΦ̄'   (rows that terminate have Φ̄' = 0)

    True dynamics never make values larger than the rewards allow. Where a fit to little data makes them more than twice as
    large, the ridge is raised until it does not.
    """
    steps = steps_of(rollouts)
    total = len(steps.times)
    psi, basis = policy_features(policy, rollouts)[:total], ActionBasis(policy)
    h, ahead = basis.values(psi, rollouts.column("actions")[:total]), basis.means(psi)
    k, m = h.shape[1], psi.shape[1]
    known = np.zeros(total)
    known[steps.going] = known[steps.over] = 1.0
    goes_on = np.zeros(total)
    goes_on[steps.going] = 1.0
    G, G_known, B = np.zeros((k, m, k, m)), np.zeros((k, m, k, m)), np.zeros((k, m, k, m))
    c = weighted_product(h, rollouts.column("rewards")[:total], psi)
    for i in range(k):
        for j in range(i, k):
            G_known[i, :, j] = G_known[j, :, i] = _product(psi, h[:, i] * h[:, j] * known, psi)
            rest = _product(psi, h[:, i] * h[:, j] * (1.0 - known), psi)
            G[i, :, j] = G[j, :, i] = G_known[i, :, j] + rest
        for j in range(k):
            B[i, :, j] = _product(psi[:-1], h[:-1, i] * goes_on[:-1] * ahead[1:, j], psi[1:])
    d = k * m
    bound = 2.0 * np.abs(rollouts.column("rewards")[:total]).max() * discount_sum(rollouts.gamma, steps.horizon)
    for ridge in RIDGES:
        penalty = np.where(np.arange(d) % m == m - 1, RIDGES[0], ridge)  # the constant feature gets the smallest ridge
        rho = solve_positive(G.reshape(d, d), c.reshape(d, 1), penalty)[:, 0]
        M = rollouts.gamma * solve_positive(G_known.reshape(d, d), B.reshape(d, d), penalty)
        W = _recursion(rho, M, steps.horizon).reshape(-1, k, m)
        with np.errstate(over="ignore", invalid="ignore"):
            largest = np.abs((ahead * apply(psi, W[-1].T)).sum(axis=1)).max()
        if largest <= bound:  # false for nan
            return LinearQ(W, policy)
    raise NoEstimate(f"{total} steps are too few for a linear model of {d} features: its values run away")


def discount_sum(gamma: float, horizon: int | None) -> float:
    """Σ γᵗ over the horizon: what a reward of 1 at every step is worth."""
    if gamma == 1.0:
        return np.inf if horizon is None else float(horizon)
    return (1.0 - (0.0 if horizon is None else gamma**horizon)) / (1.0 - gamma)


def _recursion(rho: np.ndarray, M: np.ndarray, horizon: int | None) -> np.ndarray:
    """w_h = ρ + M w_{h−1} for h = 0 … horizon, or its fixed point."""
    if horizon is None:
        return np.asarray(np.linalg.solve(np.eye(len(M)) - M, rho)[None])
    W = np.zeros((horizon + 1, len(rho)))
    with np.errstate(over="ignore", invalid="ignore"):
        for h in range(1, horizon + 1):
            W[h] = rho + apply(W[h - 1 : h], M.T)[0]
    return W


def _product(x: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Σ w x yᵀ over the rows whose weight is not 0."""
    rows = np.flatnonzero(weights)
    if x is y:
        return weighted_gram(x[rows], weights[rows])
    return weighted_product(x[rows], weights[rows], y[rows])
