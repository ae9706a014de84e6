"""Behaviour policy gradient (Hanna et al. 2017): behaviour that lowers the variance of ordinary importance sampling.

After every `batch` finished trajectories θ_b takes one SGD step on  −(1/batch) Σᵢ (gᵢ wᵢ)² Σₜ log π_b(aₜ|sₜ).
wᵢ = Pr_e(Hᵢ)/Pr_b(Hᵢ) is a trajectory's weight, and gᵢ its return divided by v(π_e), because the published step sizes belong
to relative returns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Floats, Piece, piece, real, shift
from evenroll.engine.views import Fields, beyond
from evenroll.policies import Policy
from evenroll.policies.interface import PolicyView, add_score, draw, forward, log_prob, policy_from, prepare
from evenroll.samplers.base import Sampler, require
from evenroll.samplers.interface import CHOOSE, END_EPISODE, LOG_BEHAVIOR, UPDATE, SamplerView


class Settings(Fields):
    batch: float
    step_size: float
    value: float  # the scale of returns
    parameters: float
    aux: float  # length of the policy's `aux`
    work: float  # length of its `work`


class Memory(Fields):
    """Behind these entries follow the outputs at θ_b."""

    finished: float  # finished trajectories in the batch
    chosen: float  # 1 if the last forward pass at θ_b was in the present state


@dataclass(frozen=True)
class BPG(Sampler):
    """Behaviour parameters start at θ_e and follow the gradient of the importance-sampling variance."""

    batch: int
    step_size: float
    name = "bpg"
    whole_trials_only = "learns from the returns of whole trajectories"
    needs_weights = True

    def __post_init__(self) -> None:
        require(self.batch >= 1, f"bpg: batch must be at least 1, not {self.batch}")
        good = math.isfinite(self.step_size) and self.step_size >= 0
        require(good, f"bpg: step_size must be a number ≥ 0, not {self.step_size}")

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "log_behavior": log_behavior, "update": update, "end_episode": end_episode}

    def settings(self, policy: Policy, value: float, gamma: float) -> np.ndarray:
        return np.array([self.batch, self.step_size, value, policy.parameters, len(policy.aux), policy.work_size])

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        blank = np.zeros(policy.parameters, dtype=policy.dtype)
        work = np.zeros(policy.work_size, dtype=policy.dtype)
        # θ_b, this trajectory's Σ ∇log π_b, the batch's gradient, and the view of the policy at θ_b.
        vectors = np.concatenate([policy.theta, blank, blank, policy.aux, work])
        return vectors, np.zeros(Memory.count + 4 * int(policy.sizes.outputs))


@helper
def _behavior(policy: PolicyView, sampler: SamplerView) -> tuple[Any, ...]:
    """The members of the policy's view at θ_b."""
    settings = Settings(sampler.settings)
    aux = shift(sampler.vectors, 3 * int(settings.parameters))
    work = shift(aux, int(settings.aux))
    return policy.code, policy.sizes, policy.index, sampler.vectors, aux, work, beyond(Memory(sampler.memory))


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    forward(policy, sampler.vectors, 0.0, obs)  # outputs at θ_e, for the weight
    behavior = policy_from(_behavior(policy, sampler))
    forward(behavior, sampler.vectors, 0.0, obs)
    draw(behavior, u, action)
    Memory(sampler.memory).chosen = 1.0


@piece(LOG_BEHAVIOR)
def log_behavior(policy: PolicyView, sampler: SamplerView, action: Floats) -> float:
    behavior = policy_from(_behavior(policy, sampler))
    return log_prob(behavior, behavior.out, action)


@piece(UPDATE)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    behavior = policy_from(_behavior(policy, sampler))
    memory = Memory(sampler.memory)
    if memory.chosen == 0.0:  # this is initial data, whose action `choose` has not drawn
        forward(behavior, sampler.vectors, 0.0, obs)
    memory.chosen = 0.0
    add_score(behavior, obs, action, 1.0, shift(sampler.vectors, int(Settings(sampler.settings).parameters)))


@piece(END_EPISODE)
def end_episode(policy: PolicyView, sampler: SamplerView, episode_return: float, log_weight: float) -> None:
    settings, memory, theta_b = Settings(sampler.settings), Memory(sampler.memory), sampler.vectors
    n = int(settings.parameters)
    trajectory, gradient = shift(theta_b, n), shift(theta_b, 2 * n)
    weighted = episode_return / settings.value * math.exp(log_weight)
    factor = real(weighted * weighted)
    if not math.isfinite(factor):  # an overflowing weight teaches nothing
        factor = real(0.0)
    for i in range(n):
        gradient[i] += factor * trajectory[i]
        trajectory[i] = real(0.0)
    memory.finished += 1.0
    if memory.finished >= settings.batch:
        step = real(settings.step_size / settings.batch)
        for i in range(n):
            theta_b[i] += step * gradient[i]
            gradient[i] = real(0.0)
        memory.finished = 0.0
        prepare(policy_from(_behavior(policy, sampler)))
