"""PROPS: proximal robust on-policy sampling (Corrado and Hanna, arXiv 2311.08290), as a sampler for evaluation.

Every `every` steps the behaviour parameters start again from θ and take minibatch Adam steps on

    E[max(r, clip(r, 1 − ε, 1 + ε))] + λ E[KL(π_φ ‖ π_θ)] ,   r = π_φ(a|s) / π_θ(a|s) ,   over a buffer of past (s, a)

Every action in the buffer is pushed down to 1 − ε times its probability at most, so over-sampled ones lose and
under-sampled ones gain: at φ = θ the gradient is the mean score, as in ROS. It stops when E[(r − 1) − log r] > δ.

Paper: ε, λ, δ and the learning rate as here, chosen for networks; buffers of the last few batches of a changing π_θ.
Here: the last `buffer` steps; minibatches are interleaved (every m-th step) instead of shuffled, so that no random
numbers are used up: with learning_rate = 0 this is OS bit for bit. Time per step does not grow with the data: at most
epochs · buffer / every passes forward, and (1 + actions, or 2 + 2·dimensions) times as many backward.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from evenroll.kernel import (
    CHOOSE,
    LOG_BEHAVIOR,
    UPDATE,
    Floats,
    Piece,
    PolicyView,
    Reals,
    SamplerView,
    add_score,
    draw,
    forward,
    log_prob,
    piece,
    policy_view,
    prepare,
    real,
    shift,
)
from evenroll.policies import Policy
from evenroll.policies.heads import gaussian_mean, gaussian_scale, softmax
from evenroll.samplers.base import Sampler, require

FIRST_DECAY, SECOND_DECAY, TINY = 0.9, 0.999, 1e-8  # Adam
# hyper: the sampler's own eight, then sizes
RATE, CLIP, PENALTY, TOLERANCE, EVERY, BUFFER, EPOCHS, BATCH = 0, 1, 2, 3, 4, 5, 6, 7
N_OBS, N_AUX, DISCRETE = 8, 9, 10
STEPS, HEAD = 0, 1  # memory: steps so far; outputs at φ; an action to try, probabilities; then the buffer


@dataclass(frozen=True)
class PROPS(Sampler):
    """Behaviour parameters fitted anew, every so many steps, to make the recent data's actions less likely, within limits.

    learning_rate, clip ε, penalty λ, max_divergence δ as in the paper; every, buffer in steps; epochs, batch of the fit
    """

    learning_rate: float = 1e-4
    clip: float = 0.3
    penalty: float = 0.3
    max_divergence: float = 0.05
    every: int = 512
    buffer: int = 1024
    epochs: int = 4
    batch: int = 64
    name = "props"

    def __post_init__(self) -> None:
        for key in ("learning_rate", "clip", "penalty", "max_divergence"):
            x = getattr(self, key)
            require(math.isfinite(x) and x >= 0, f"props: {key} must be a number ≥ 0, not {x}")
        for key in ("every", "buffer", "epochs", "batch"):
            require(getattr(self, key) >= 1, f"props: {key} must be at least 1, not {getattr(self, key)}")

    def _shown(self) -> list[tuple[str, Any]]:
        return [(f.name, getattr(self, f.name)) for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "log_behavior": log_behavior, "update": update}

    def hyper(self, policy: Policy, value: float, gamma: float) -> np.ndarray:
        sizes = [policy.obs_dim, len(policy.aux), policy.n_actions is not None]
        return np.array([*dataclasses.astuple(self), *sizes], dtype=np.float64)

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        blank = np.zeros(3 * policy.parameters, dtype=policy.dtype)
        work = np.zeros(policy.work_size, dtype=policy.dtype)
        vectors = np.concatenate([policy.theta, blank, policy.aux, work])  # φ, gradient, Adam's two means; the view at φ
        n_out, dim = int(policy.dims[0]), policy.action_dim
        return vectors, np.zeros(HEAD + 6 * n_out + dim + self.buffer * (policy.obs_dim + dim + n_out))


@njit
def _behavior(policy: PolicyView, sampler: SamplerView) -> tuple[Any, ...]:
    """The arrays of the policy at φ."""
    aux = shift(sampler.vectors, 4 * policy.dims[2])
    work = shift(aux, int(sampler.hyper[N_AUX]))
    return policy.code, policy.dims, policy.index, sampler.vectors, aux, work, shift(sampler.memory, HEAD)


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    forward(policy, sampler.vectors, 0.0, obs)  # outputs at θ, to be remembered
    behavior = policy_view(*_behavior(policy, sampler))
    forward(behavior, sampler.vectors, 0.0, obs)
    draw(behavior, u, action)


@piece(LOG_BEHAVIOR)
def log_behavior(policy: PolicyView, sampler: SamplerView, action: Floats) -> float:
    behavior = policy_view(*_behavior(policy, sampler))
    return log_prob(behavior, behavior.out, action)


@piece(UPDATE)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    """Remember the step; every so often, fit φ."""
    memory, hyper = sampler.memory, sampler.hyper
    row, n_obs, dim = _row(policy, sampler, int(memory[STEPS]) % int(hyper[BUFFER])), int(hyper[N_OBS]), policy.dims[1]
    for i in range(n_obs):
        row[i] = obs[i]
    for i in range(dim):
        row[n_obs + i] = action[i]
    for i in range(policy.dims[0]):
        row[n_obs + dim + i] = policy.out[i]
    memory[STEPS] += 1.0
    if int(memory[STEPS]) % int(hyper[EVERY]) != 0 or hyper[RATE] == 0.0:
        return
    behavior = policy_view(*_behavior(policy, sampler))
    n = policy.dims[2]
    phi = sampler.vectors
    gradient, mean, square = shift(phi, n), shift(phi, 2 * n), shift(phi, 3 * n)
    for i in range(n):
        phi[i], mean[i], square[i] = policy.theta[i], real(0.0), real(0.0)  # φ ← θ
    prepare(behavior)
    size = int(min(memory[STEPS], hyper[BUFFER]))
    batches = -(-size // int(hyper[BATCH]))
    for j in range(int(hyper[EPOCHS]) * batches):
        for i in range(n):
            gradient[i] = real(0.0)
        if _minibatch(behavior, sampler, j % batches, batches, size, gradient) > hyper[TOLERANCE]:
            break
        rate = real(hyper[RATE] / (1.0 - FIRST_DECAY ** (j + 1.0)))
        scale = real(1.0 / math.sqrt(1.0 - SECOND_DECAY ** (j + 1.0)))
        for i in range(n):  # Adam
            mean[i] += real(1.0 - FIRST_DECAY) * (gradient[i] - mean[i])
            square[i] += real(1.0 - SECOND_DECAY) * (gradient[i] * gradient[i] - square[i])
            phi[i] -= rate * mean[i] / (real(math.sqrt(square[i])) * scale + real(TINY))
        prepare(behavior)


@njit
def _row(policy: PolicyView, sampler: SamplerView, i: int) -> Floats:
    """Row i of the buffer: observation, action, outputs at θ."""
    width = int(sampler.hyper[N_OBS]) + policy.dims[1] + policy.dims[0]
    return shift(sampler.memory, HEAD + 6 * policy.dims[0] + policy.dims[1] + i * width)


@njit
def _minibatch(
    behavior: PolicyView, sampler: SamplerView, first: int, every: int, size: int, gradient: Reals
) -> float:  # fmt: skip
    """Add the loss's gradient over rows first, first + every, …; returns E[(r − 1) − log r] of them."""
    hyper, dim = sampler.hyper, behavior.dims[1]
    n_obs, discrete = int(hyper[N_OBS]), hyper[DISCRETE] == 1.0
    share = 1.0 / ((size - first + every - 1) // every)
    divergence = 0.0
    for i in range(first, size, every):
        obs = _row(behavior, sampler, i)
        action = shift(obs, n_obs)
        theta_out = shift(action, dim)
        forward(behavior, sampler.vectors, 0.0, obs)
        log_r = log_prob(behavior, behavior.out, action) - log_prob(behavior, theta_out, action)
        r = math.exp(log_r)
        divergence += share * (r - 1.0 - log_r)
        if r > 1.0 - hyper[CLIP]:  # ∇ max(r, clip(r)) = ∇r = r ∇log π_φ above 1 − ε, else 0
            add_score(behavior, obs, action, share * r, gradient)
        if discrete:
            _add_kl_categorical(behavior, sampler, obs, theta_out, share * hyper[PENALTY], gradient)
        else:
            _add_kl_gaussian(behavior, sampler, obs, theta_out, share * hyper[PENALTY], gradient)
    return divergence


@njit
def _add_kl_categorical(
    behavior: PolicyView, sampler: SamplerView, obs: Floats, theta_out: Floats, weight: float, gradient: Reals
) -> None:  # fmt: skip
    """∇ KL(π_φ ‖ π_θ) = Σ_a π_φ(a) (log π_φ(a)/π_θ(a) − KL) ∇ log π_φ(a|s)."""
    n = behavior.dims[0]
    action = shift(sampler.memory, HEAD + 4 * n)
    p, q = shift(action, 1), shift(action, 1 + n)
    softmax(n, behavior.out, p)
    softmax(n, theta_out, q)
    kl = 0.0
    for a in range(n):
        kl += p[a] * math.log(p[a] / q[a]) if p[a] > 0.0 else 0.0
    for a in range(n):
        change = p[a] * (math.log(p[a] / q[a]) - kl) if p[a] > 0.0 else 0.0
        if change != 0.0:
            action[0] = a
            add_score(behavior, obs, action, weight * change, gradient)


@njit
def _add_kl_gaussian(
    behavior: PolicyView, sampler: SamplerView, obs: Floats, theta_out: Floats, weight: float, gradient: Reals
) -> None:  # fmt: skip
    """KL = Σ log(σ/σ_φ) + (σ_φ² + (μ_φ − μ)²)/(2σ²) − ½, its gradient as a sum of scores of well-chosen actions.

    Scores are z/σ_φ for the mean and (z² − 1)/σ_φ for the scale. With actions z = (1, …, 1), and the same with −1 or 0 in
    dimension i, weights −Σ, (C_i − A_i)/2 and −C_i give exactly A_i/σ_φ and C_i/σ_φ.
    """
    dims, phi_out = behavior.dims, behavior.out
    action = shift(sampler.memory, HEAD + 4 * dims[0])
    balance = 0.0
    for i in range(dims[1]):
        action[i] = gaussian_mean(dims, phi_out[2 * i]) + gaussian_scale(dims, phi_out[2 * i + 1])
    for i in range(dims[1]):
        mean, scale = gaussian_mean(dims, theta_out[2 * i]), gaussian_scale(dims, theta_out[2 * i + 1])
        mean_phi, scale_phi = gaussian_mean(dims, phi_out[2 * i]), gaussian_scale(dims, phi_out[2 * i + 1])
        A = (mean_phi - mean) / (scale * scale) * scale_phi
        C = (scale_phi / scale) * (scale_phi / scale) - 1.0
        action[i] = mean_phi - scale_phi
        add_score(behavior, obs, action, weight * 0.5 * (C - A), gradient)
        action[i] = mean_phi
        add_score(behavior, obs, action, -weight * C, gradient)
        action[i] = mean_phi + scale_phi
        balance += 0.5 * (C - A) - C
    add_score(behavior, obs, action, -weight * balance, gradient)
