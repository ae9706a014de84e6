"""Behaviour policy gradient (Hanna et al. 2017): lowers the variance of ordinary importance sampling.

After every `batch` finished trajectories, one SGD step on  −(1/batch) Σᵢ (gᵢ wᵢ)² Σₜ log π_b(aₜ|sₜ),
wᵢ = Pr_e(Hᵢ)/Pr_b(Hᵢ), gᵢ the return divided by v(π_e): the published step sizes belong to relative returns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from evenroll.kernel import (
    CHOOSE,
    END_EPISODE,
    LOG_BEHAVIOR,
    UPDATE,
    Floats,
    Piece,
    PolicyView,
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
from evenroll.samplers.base import Sampler, require


@dataclass(frozen=True)
class BPG(Sampler):
    """Behaviour parameters start at θ_e and follow the gradient of the importance-sampling variance."""

    batch: int
    step_size: float
    name = "bpg"
    needs_weights = True

    def __post_init__(self) -> None:
        require(self.batch >= 1, f"bpg: batch must be at least 1, not {self.batch}")
        good = math.isfinite(self.step_size) and self.step_size >= 0
        require(good, f"bpg: step_size must be a number ≥ 0, not {self.step_size}")

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "log_behavior": log_behavior, "update": update, "end_episode": end_episode}

    def hyper(self, policy: Policy, value: float, gamma: float) -> np.ndarray:
        return np.array([self.batch, self.step_size, value, policy.parameters, len(policy.aux), policy.work_size])

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        blank = np.zeros(policy.parameters, dtype=policy.dtype)
        work = np.zeros(policy.work_size, dtype=policy.dtype)
        # θ_b, this trajectory's Σ ∇log π_b, the batch's gradient, and the view of the policy at θ_b.
        vectors = np.concatenate([policy.theta, blank, blank, policy.aux, work])
        # trajectories in the batch; whether the forward pass at θ_b is this state's; outputs at θ_b
        return vectors, np.zeros(2 + 4 * int(policy.dims[0]))


@njit
def _behavior(policy: PolicyView, sampler: SamplerView) -> tuple[Any, ...]:
    """The arrays of the policy at θ_b."""
    aux = shift(sampler.vectors, 3 * int(sampler.hyper[3]))
    work = shift(aux, int(sampler.hyper[4]))
    return policy.code, policy.dims, policy.index, sampler.vectors, aux, work, shift(sampler.memory, 2)


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    forward(policy, sampler.vectors, 0.0, obs)  # outputs at θ_e, for the weight
    behavior = policy_view(*_behavior(policy, sampler))
    forward(behavior, sampler.vectors, 0.0, obs)
    draw(behavior, u, action)
    sampler.memory[1] = 1.0


@piece(LOG_BEHAVIOR)
def log_behavior(policy: PolicyView, sampler: SamplerView, action: Floats) -> float:
    behavior = policy_view(*_behavior(policy, sampler))
    return log_prob(behavior, behavior.out, action)


@piece(UPDATE)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    behavior = policy_view(*_behavior(policy, sampler))
    if sampler.memory[1] == 0.0:  # initial data: nothing was chosen here
        forward(behavior, sampler.vectors, 0.0, obs)
    sampler.memory[1] = 0.0
    add_score(behavior, obs, action, 1.0, shift(sampler.vectors, int(sampler.hyper[3])))


@piece(END_EPISODE)
def end_episode(policy: PolicyView, sampler: SamplerView, episode_return: float, log_weight: float) -> None:
    batch, step_size, value, n = sampler.hyper[0], sampler.hyper[1], sampler.hyper[2], int(sampler.hyper[3])
    theta_b = sampler.vectors
    trajectory, gradient = shift(theta_b, n), shift(theta_b, 2 * n)
    weighted = episode_return / value * math.exp(log_weight)
    factor = real(weighted * weighted)
    if not math.isfinite(factor):  # an overflowing weight teaches nothing
        factor = real(0.0)
    for i in range(n):
        gradient[i] += factor * trajectory[i]
        trajectory[i] = real(0.0)
    sampler.memory[0] += 1.0
    if sampler.memory[0] >= batch:
        step = real(step_size / batch)
        for i in range(n):
            theta_b[i] += step * gradient[i]
            gradient[i] = real(0.0)
        sampler.memory[0] = 0.0
        prepare(policy_view(*_behavior(policy, sampler)))
