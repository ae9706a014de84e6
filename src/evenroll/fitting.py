"""π̂, the maximum-likelihood policy of the data: counts for a table; for a network its last layer on fixed features.

Authors of the paper: at least 1,000 Adam steps from θ_e, which stops short of the optimum at small budgets.
Here: Newton's method to the optimum, so early KL curves lie above the published ones. It starts at θ_e, which is as
near to the optimum as the optimum of half the data would be: nothing is carried from checkpoint to checkpoint.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import numpy as np

from evenroll.errors import DataError, NoEstimate
from evenroll.policies import MLP, Policy, TabularSoftmax
from evenroll.policies.heads import LOG_SQRT_2PI
from evenroll.rollouts import Rollouts
from evenroll.tall import apply, weighted_gram, weighted_product

ITERATIONS = 100
CLOSE = 1e-6  # nats of log-likelihood, over all steps, that one more Newton step would gain: then it is the last
KEEP_CURVATURE = 0.1  # as long as the gain in sight falls this fast, the curvature is not computed anew
RIDGE = 1e-9  # relative to each parameter's own curvature: features that never fire or are collinear
SMALLEST_SCALE = 1e-5  # a Gaussian narrower than this has run off to an infinite likelihood
CHUNK = 8192


def table_cells(policy: TabularSoftmax, rollouts: Rollouts) -> tuple[np.ndarray, np.ndarray]:
    """(state, action) numbers of every step."""
    states = rollouts.column("observations")[:, 0].astype(np.int64)
    actions = rollouts.column("actions")[:, 0].astype(np.int64)
    return states, actions


def policy_features(policy: MLP, rollouts: Rollouts) -> np.ndarray:
    """ψ [N, F]: last hidden activations and a constant 1, from the rollouts if they carry them."""
    if rollouts.features is not None:
        return rollouts.features
    observations = rollouts.column("observations")
    psi = np.ones((len(observations), policy.head_weight.shape[1] + 1))
    for first in range(0, len(observations), CHUNK):
        psi[first : first + CHUNK, :-1] = policy.features(observations[first : first + CHUNK])
    return psi


def with_features(rollouts: Rollouts, policy: Policy) -> Rollouts:
    """The same rollouts carrying the policy's features, so that prefixes of one trial share them."""
    return dataclasses.replace(rollouts, features=policy_features(policy, rollouts)) if isinstance(policy, MLP) else rollouts


def fitted_log_probs(policy: Policy, rollouts: Rollouts) -> np.ndarray:
    """log π̂(a_t|s_t) for every recorded step, the unfinished trajectory included."""
    actions = rollouts.column("actions")
    if len(actions) == 0:
        return np.zeros(0)
    if isinstance(policy, TabularSoftmax):
        states, chosen = table_cells(policy, rollouts)
        counts = np.zeros(policy.table.shape)
        np.add.at(counts, (states, chosen), 1.0)
        return np.asarray(np.log(counts[states, chosen] / counts.sum(axis=1)[states]))
    if not isinstance(policy, MLP):
        raise DataError(f"a maximum-likelihood fit of {type(policy).__name__} is not known")
    psi = policy_features(policy, rollouts)
    if policy.n_actions is not None:
        head = np.concatenate([policy.head_weight.T, policy.head_bias[None]])
        model = SoftmaxHead(psi, actions[:, 0].astype(np.int64), policy.n_actions)
        return maximise(model, (head[:, 1:] - head[:, :1]).ravel())
    return np.sum([_fit_gaussian(policy, psi, actions[:, i], i) for i in range(policy.action_dim)], axis=0)


def _fit_gaussian(policy: MLP, psi: np.ndarray, actions: np.ndarray, dimension: int) -> np.ndarray:
    own_scale = policy.log_std is not None
    row = dimension if own_scale else 2 * dimension
    mean = np.append(policy.head_weight[row], policy.head_bias[row])
    if policy.log_std is not None:
        model = GaussianHead(psi, np.ones((len(psi), 1)), actions, policy.mean, "log_std")
        return maximise(model, np.append(mean, policy.log_std[dimension]))
    scale = np.append(policy.head_weight[row + 1], policy.head_bias[row + 1])
    return maximise(GaussianHead(psi, psi, actions, policy.mean, policy.scale), np.append(mean, scale))


# ---- likelihoods ---------------------------------------------------------------------------------------------


class Likelihood(Protocol):
    """log p(a_t|ψ_t; x) of every step, and from what it leaves behind the gradient and curvature of their sum."""

    def log_probs(self, x: np.ndarray) -> tuple[np.ndarray, Any]: ...
    def gradient(self, at: Any) -> np.ndarray: ...
    def curvature(self, at: Any) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True)
class SoftmaxHead:
    """log softmax(0, ψW)[a]: x = W [features, actions − 1], relative to the first action. Concave."""

    psi: np.ndarray
    actions: np.ndarray
    n: int

    def log_probs(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits = np.zeros((len(self.psi), self.n))
        logits[:, 1:] = apply(self.psi, x.reshape(self.psi.shape[1], -1))
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        total = p.sum(axis=1)
        chosen = np.take_along_axis(logits, self.actions[:, None], axis=1)[:, 0]
        return chosen - np.log(total), p / total[:, None]

    def gradient(self, at: np.ndarray) -> np.ndarray:
        """Σ ψ ⊗ (1{a} − p)."""
        taken = -at
        taken[np.arange(len(at)), self.actions] += 1.0
        return weighted_product(self.psi, np.ones(len(at)), taken[:, 1:]).ravel()

    def curvature(self, at: np.ndarray) -> np.ndarray:
        """Σ ψψᵀ ⊗ (diag p − ppᵀ)."""
        m, free = self.psi.shape[1], self.n - 1
        H = np.empty((m, free, m, free))
        for i in range(free):
            for j in range(i, free):
                block = weighted_gram(self.psi, at[:, i + 1] * ((i == j) - at[:, j + 1]))
                H[:, i, :, j] = H[:, j, :, i] = block
        return H.reshape(m * free, m * free)


@dataclasses.dataclass(frozen=True)
class GaussianHead:
    """log N(a; mean(ψw), scale(φu)²): x = (w, u), with the policy's link functions. Not concave, but smooth near θ_e."""

    psi: np.ndarray
    phi: np.ndarray  # ψ again, or a constant where the scale does not depend on the state
    actions: np.ndarray
    mean: str
    scale: str

    def log_probs(self, x: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        m = self.psi.shape[1]
        raw_mean, raw_scale = apply(self.psi, x[:m, None])[:, 0], apply(self.phi, x[m:, None])[:, 0]
        mean = np.tanh(raw_mean) if self.mean == "tanh" else raw_mean
        mean_slope = 1.0 - mean**2 if self.mean == "tanh" else np.ones_like(mean)
        if self.scale == "softplus":
            scale = np.logaddexp(0.0, raw_scale)
            scale_slope = -np.expm1(-scale)  # the sigmoid
        else:
            scale = scale_slope = np.exp(np.minimum(raw_scale, 700.0))
        if scale.min() < SMALLEST_SCALE:
            raise NoEstimate(f"the Gaussian's likelihood has no maximum on {len(mean)} steps and {len(x)} parameters")
        z = (self.actions - mean) / scale
        return -0.5 * z**2 - np.log(scale) - LOG_SQRT_2PI, (z, mean_slope / scale, scale_slope / scale)

    def gradient(self, at: tuple[np.ndarray, ...]) -> np.ndarray:
        z, by_mean, by_scale = at
        parts = (weighted_product(self.psi, by_mean, z[:, None]), weighted_product(self.phi, by_scale, (z**2 - 1)[:, None]))
        return np.concatenate(parts)[:, 0]

    def curvature(self, at: tuple[np.ndarray, ...]) -> np.ndarray:
        """Its expectation (Fisher scoring): mean and scale are orthogonal."""
        _, by_mean, by_scale = at
        m, k = self.psi.shape[1], self.phi.shape[1]
        H = np.zeros((m + k, m + k))
        H[:m, :m] = weighted_gram(self.psi, by_mean**2)
        H[m:, m:] = weighted_gram(self.phi, 2.0 * by_scale**2)
        return H


def maximise(model: Likelihood, x: np.ndarray) -> np.ndarray:
    """log p of every step at the maximum of their sum, by Newton's method from x."""
    log_p, at = model.log_probs(x)
    solve, fresh, last_gain = _solver(model.curvature(at)), True, np.inf
    for _ in range(ITERATIONS):
        gradient = model.gradient(at)
        step = solve(gradient)
        gain = float(gradient @ step)
        if not fresh and gain > KEEP_CURVATURE * last_gain:
            solve, fresh = _solver(model.curvature(at)), True
            step = solve(gradient)
            gain = float(gradient @ step)
        found = _uphill(model, x, step, float(log_p.sum()))
        if found is None:
            break  # as high as rounding lets it
        x, log_p, at = found
        if gain < CLOSE:
            break
        fresh, last_gain = False, gain
    return log_p


def _uphill(model: Likelihood, x: np.ndarray, step: np.ndarray, height: float) -> tuple[np.ndarray, np.ndarray, Any] | None:
    """The first of x + step, x + step/2, … that is not lower than x."""
    for halvings in range(30):
        further = x + step / 2.0**halvings
        log_p, at = model.log_probs(further)
        if log_p.sum() >= height:
            return further, log_p, at
    return None


def _solver(H: np.ndarray) -> Any:
    """g ↦ H⁻¹g, scaled so that the ridge means the same for every parameter."""
    scale = np.sqrt(np.diag(H))
    scale[scale == 0.0] = 1.0
    inverse = np.linalg.inv(H / np.outer(scale, scale) + RIDGE * np.eye(len(H)))
    return lambda g: inverse @ (g / scale) / scale
