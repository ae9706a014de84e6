"""ROS that changes its behaviour only between trajectories, as the paper suggests for robots that must not adapt on the run.

This is Algorithm 1 with S and k of the *finished* trajectories. The running trajectory is summed up apart, and its sum is
added to S when it ends. Where every trajectory is one step long this is ROS, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenroll.engine.pieces import Floats, Piece, piece, real, shift
from evenroll.engine.simd import aligned
from evenroll.engine.views import Fields
from evenroll.policies import Policy
from evenroll.policies.interface import PolicyView, add_score, draw, forward
from evenroll.samplers.base import Sampler, require
from evenroll.samplers.interface import CHOOSE, END_EPISODE, UPDATE, SamplerView


class Settings(Fields):
    alpha: float


class Memory(Fields):
    k: float  # steps of the finished trajectories
    length: float  # steps of the running trajectory


LARGEST = 1e100  # keeps α/k · S from overflowing


@dataclass(frozen=True)
class ROSEpisode(Sampler):
    """Act with π at θ_e − α ∇L, where ∇L is the mean score of the trajectories that have finished."""

    alpha: float
    name = "ros-episode"
    whole_trials_only = "sums up one running trajectory at a time"

    def __post_init__(self) -> None:
        good = math.isfinite(self.alpha) and self.alpha >= 0
        require(good, f"ros-episode: alpha must be a number ≥ 0, not {self.alpha}")

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "update": update, "end_episode": end_episode}

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        both = np.zeros(2 * policy.parameters, dtype=policy.dtype)
        return aligned(both, policy.first_weight), np.zeros(Memory.count)  # S, and the sum of the running trajectory


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    alpha, k, S = Settings(sampler.settings).alpha, Memory(sampler.memory).k, sampler.vectors
    forward(policy, S, min(alpha / k, LARGEST) if k > 0.0 else 0.0, obs)  # θ_b, the same for the whole trajectory
    draw(policy, u, action)


@piece(UPDATE)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    add_score(policy, obs, action, 1.0, shift(sampler.vectors, policy.sizes.parameters))
    Memory(sampler.memory).length += 1.0


@piece(END_EPISODE)
def end_episode(policy: PolicyView, sampler: SamplerView, episode_return: float, log_weight: float) -> None:
    n = policy.sizes.parameters
    S, running = sampler.vectors, shift(sampler.vectors, n)
    for i in range(n):
        S[i] += running[i]
        running[i] = real(0.0)
    memory = Memory(sampler.memory)
    memory.k += memory.length
    memory.length = 0.0
