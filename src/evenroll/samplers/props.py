"""PROPS: proximal robust on-policy sampling (Corrado and Hanna, arXiv 2311.08290), as a sampler for evaluation.

Every `every` steps the behaviour parameters start again from θ and take minibatch Adam steps on

    E[max(r, clip(r, 1 − ε, 1 + ε))] + λ E[KL(π_φ ‖ π_θ)] ,   r = π_φ(a|s) / π_θ(a|s) ,   over a buffer of past (s, a)

The fit pushes every action in the buffer down, to 1 − ε times its probability at the lowest. So over-sampled actions lose
and under-sampled ones gain: at φ = θ the gradient is the mean score, as in ROS. The fit stops when E[(r − 1) − log r] > δ.

Paper: ε, λ, δ and the learning rate as here, chosen for networks; buffers of the last few batches of a changing π_θ.
Here: the last `buffer` steps; minibatches are interleaved (every m-th step) instead of shuffled. The fit therefore uses no
random numbers, and with learning_rate = 0 this is OS bit for bit. The time per step does not grow with the data: there are
at most epochs · buffer / every passes forward, and (1 + actions, or 2 + 2·dimensions) times as many backward.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.engine import border
from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Floats, Piece, Reals, piece, real, shift
from evenroll.engine.views import Fields, beyond
from evenroll.errors import DataError
from evenroll.policies import External, Policy
from evenroll.policies.heads import gaussian_mean, gaussian_scale, softmax
from evenroll.policies.interface import PolicyView, add_score, draw, forward, log_prob, policy_from, prepare
from evenroll.samplers.base import Sampler, require
from evenroll.samplers.interface import CHOOSE, LOG_BEHAVIOR, UPDATE, SamplerView

FIRST_DECAY, SECOND_DECAY, TINY = 0.9, 0.999, 1e-8  # Adam's usual β₁, β₂ and ε


class Settings(Fields):
    learning_rate: float
    clip: float
    penalty: float
    max_divergence: float
    every: float
    buffer: float
    epochs: float
    batch: float
    obs: float  # length of an observation
    aux: float  # length of the policy's `aux`
    discrete: float  # 1 for a discrete action


class Memory(Fields):
    """Behind this entry follow the outputs at φ and scratch, an action to try, two sets of probabilities, and the buffer."""

    steps: float  # steps so far


@dataclass(frozen=True)
class PROPS(Sampler):
    """Fit the behaviour parameters again and again, to make the actions of the recent data less likely, within limits.

    learning_rate   as in the paper, and so are clip ε, penalty λ and max_divergence δ
    every           how many steps lie between two fits
    buffer          how many of the last steps are fitted
    epochs, batch   how often a fit visits every step of the buffer, and how many steps a minibatch has
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

    def check(self, policy: Policy) -> None:
        require(not isinstance(policy, External), "props moves a network's own parameters: it needs one of ours, or a table")

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "log_behavior": log_behavior, "update": update}

    def work(self, policy: Policy) -> int:
        """A fit passes the buffer `epochs` times, several scores a step; four weights take the time of one of roa's."""
        scores = 1 + (policy.n_actions or 1 + 2 * policy.action_dim)
        return self.epochs * self.buffer * scores * policy.parameters // 4

    def settings(self, policy: Policy, value: float, gamma: float) -> np.ndarray:
        sizes = [policy.obs_dim, len(policy.aux), policy.n_actions is not None]
        return np.array([*dataclasses.astuple(self), *sizes], dtype=np.float64)

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        blank = np.zeros(3 * policy.parameters, dtype=policy.dtype)
        work = np.zeros(policy.work_size, dtype=policy.dtype)
        vectors = np.concatenate([policy.theta, blank, policy.aux, work])  # φ, gradient, Adam's two means; the view at φ
        n_out, dim = int(policy.sizes.outputs), policy.action_dim
        return vectors, np.zeros(Memory.count + 6 * n_out + dim + self.buffer * (policy.obs_dim + dim + n_out))

    def check_memory(self, policy: Policy, memory: np.ndarray) -> None:
        """The buffer holds states and actions."""
        n_out, dim = int(policy.sizes.outputs), policy.action_dim
        if not 0.0 <= Memory(memory).steps <= border.EXACT:
            raise DataError("the number of steps in the memory of props is not possible")
        buffer = memory[Memory.count + 6 * n_out + dim :].reshape(self.buffer, -1)
        policy.checked_observations(buffer[:, : policy.obs_dim], DataError)
        policy.checked_actions(buffer[:, policy.obs_dim : policy.obs_dim + dim], DataError)


@helper
def _behavior(policy: PolicyView, sampler: SamplerView) -> tuple[Any, ...]:
    """The members of the policy's view at φ."""
    aux = shift(sampler.vectors, 4 * policy.sizes.parameters)
    work = shift(aux, int(Settings(sampler.settings).aux))
    return policy.code, policy.sizes, policy.index, sampler.vectors, aux, work, beyond(Memory(sampler.memory))


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    forward(policy, sampler.vectors, 0.0, obs)  # outputs at θ, to be remembered
    behavior = policy_from(_behavior(policy, sampler))
    forward(behavior, sampler.vectors, 0.0, obs)
    draw(behavior, u, action)


@piece(LOG_BEHAVIOR)
def log_behavior(policy: PolicyView, sampler: SamplerView, action: Floats) -> float:
    behavior = policy_from(_behavior(policy, sampler))
    return log_prob(behavior, behavior.out, action)


@piece(UPDATE)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    """Put the step into the buffer, and fit φ if `every` steps have passed."""
    memory, settings = Memory(sampler.memory), Settings(sampler.settings)
    row, n_obs = _row(policy, sampler, int(memory.steps) % int(settings.buffer)), int(settings.obs)
    dim = policy.sizes.action_dim
    for i in range(n_obs):
        row[i] = obs[i]
    for i in range(dim):
        row[n_obs + i] = action[i]
    for i in range(policy.sizes.outputs):
        row[n_obs + dim + i] = policy.out[i]
    memory.steps += 1.0
    if int(memory.steps) % int(settings.every) != 0 or settings.learning_rate == 0.0:
        return
    behavior = policy_from(_behavior(policy, sampler))
    n = policy.sizes.parameters
    phi = sampler.vectors
    gradient, mean, square = shift(phi, n), shift(phi, 2 * n), shift(phi, 3 * n)
    for i in range(n):
        phi[i], mean[i], square[i] = policy.theta[i], real(0.0), real(0.0)  # φ ← θ
    prepare(behavior)
    size = int(min(memory.steps, settings.buffer))
    batches = -(-size // int(settings.batch))
    for j in range(int(settings.epochs) * batches):
        for i in range(n):
            gradient[i] = real(0.0)
        if _minibatch(behavior, sampler, j % batches, batches, size, gradient) > settings.max_divergence:
            break
        rate = real(settings.learning_rate / (1.0 - FIRST_DECAY ** (j + 1.0)))
        scale = real(1.0 / math.sqrt(1.0 - SECOND_DECAY ** (j + 1.0)))
        for i in range(n):  # Adam
            mean[i] += real(1.0 - FIRST_DECAY) * (gradient[i] - mean[i])
            square[i] += real(1.0 - SECOND_DECAY) * (gradient[i] * gradient[i] - square[i])
            phi[i] -= rate * mean[i] / (real(math.sqrt(square[i])) * scale + real(TINY))
        prepare(behavior)


@helper
def _row(policy: PolicyView, sampler: SamplerView, i: int) -> Floats:
    """Row i of the buffer: the observation, the action and the outputs at θ."""
    outputs, dim = policy.sizes.outputs, policy.sizes.action_dim
    width = int(Settings(sampler.settings).obs) + dim + outputs
    return shift(beyond(Memory(sampler.memory)), 6 * outputs + dim + i * width)


@helper
def _minibatch(
    behavior: PolicyView, sampler: SamplerView, first: int, every: int, size: int, gradient: Reals
) -> float:  # fmt: skip
    """Add the gradient of the loss over rows first, first + every, …. Returns their E[(r − 1) − log r]."""
    settings, dim = Settings(sampler.settings), behavior.sizes.action_dim
    n_obs, discrete = int(settings.obs), settings.discrete == 1.0
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
        if r > 1.0 - settings.clip:  # ∇ max(r, clip(r)) = ∇r = r ∇log π_φ above 1 − ε, else 0
            add_score(behavior, obs, action, share * r, gradient)
        if discrete:
            _add_kl_categorical(behavior, sampler, obs, theta_out, share * settings.penalty, gradient)
        else:
            _add_kl_gaussian(behavior, sampler, obs, theta_out, share * settings.penalty, gradient)
    return divergence


@helper
def _add_kl_categorical(
    behavior: PolicyView, sampler: SamplerView, obs: Floats, theta_out: Floats, weight: float, gradient: Reals
) -> None:  # fmt: skip
    """∇ KL(π_φ ‖ π_θ) = Σ_a π_φ(a) (log π_φ(a)/π_θ(a) − KL) ∇ log π_φ(a|s)."""
    n = behavior.sizes.outputs
    action = shift(beyond(Memory(sampler.memory)), 4 * n)
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


@helper
def _add_kl_gaussian(
    behavior: PolicyView, sampler: SamplerView, obs: Floats, theta_out: Floats, weight: float, gradient: Reals
) -> None:  # fmt: skip
    """KL = Σ log(σ/σ_φ) + (σ_φ² + (μ_φ − μ)²)/(2σ²) − ½. Its gradient is a sum of scores of well-chosen actions.

    Scores are z/σ_φ for the mean and (z² − 1)/σ_φ for the scale. The actions are z = (1, …, 1), and the same with −1 or 0 in
    dimension i. With weights −Σ, (C_i − A_i)/2 and −C_i their scores sum to exactly A_i/σ_φ and C_i/σ_φ.
    """
    sizes, phi_out = behavior.sizes, behavior.out
    action = shift(beyond(Memory(sampler.memory)), 4 * sizes.outputs)
    balance = 0.0
    for i in range(sizes.action_dim):
        action[i] = gaussian_mean(sizes, phi_out[2 * i]) + gaussian_scale(sizes, phi_out[2 * i + 1])
    for i in range(sizes.action_dim):
        mean, scale = gaussian_mean(sizes, theta_out[2 * i]), gaussian_scale(sizes, theta_out[2 * i + 1])
        mean_phi, scale_phi = gaussian_mean(sizes, phi_out[2 * i]), gaussian_scale(sizes, phi_out[2 * i + 1])
        A = (mean_phi - mean) / (scale * scale) * scale_phi
        C = (scale_phi / scale) * (scale_phi / scale) - 1.0
        action[i] = mean_phi - scale_phi
        add_score(behavior, obs, action, weight * 0.5 * (C - A), gradient)
        action[i] = mean_phi
        add_score(behavior, obs, action, -weight * C, gradient)
        action[i] = mean_phi + scale_phi
        balance += 0.5 * (C - A) - C
    add_score(behavior, obs, action, -weight * balance, gradient)
