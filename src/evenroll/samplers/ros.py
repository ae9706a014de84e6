"""Robust on-policy sampling, Algorithm 1 of the paper.

The running mean ∇L of the scores is kept as a sum S and a count k, ∇L = S/k, so that a step touches each
parameter once; θ_b = θ_e − (α/k) S is evaluated without being built (see the policy's `forward`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenroll.engine.pieces import Floats, Piece, piece
from evenroll.engine.views import Fields
from evenroll.policies import Policy
from evenroll.policies.interface import PolicyView, add_score, draw, forward
from evenroll.samplers.base import Sampler, require
from evenroll.samplers.interface import CHOOSE, UPDATE, SamplerView
from evenroll.samplers.sums import Sums


class Settings(Fields):
    alpha: float


class Memory(Fields):
    k: float  # steps so far


LARGEST = 1e100  # keeps α/k · S from overflowing


@dataclass(frozen=True)
class ROS(Sampler):
    """Act with π at θ_e − α ∇L, ∇L the mean score of all data so far: under-sampled actions become likelier."""

    alpha: float
    name = "ros"

    def __post_init__(self) -> None:
        require(math.isfinite(self.alpha) and self.alpha >= 0, f"ros: alpha must be a number ≥ 0, not {self.alpha}")

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "update": update}

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        return policy.zero_vector(), np.zeros(Memory.count)  # S, k                  (Alg. 1, lines 3–4)

    def sums(self, policy: Policy) -> Sums:
        everything = slice(0, policy.parameters)
        return Sums(vectors=everything, memory=np.array([Memory.names.index("k")]), owed_vectors=everything)


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    alpha, k, S = Settings(sampler.settings).alpha, Memory(sampler.memory).k, sampler.vectors
    forward(policy, S, min(alpha / k, LARGEST) if k > 0.0 else 0.0, obs)  # θ_b = θ_e − α ∇L  (Alg. 1, line 9)
    draw(policy, u, action)  # a ~ π_θb(·|s)                                         (Alg. 1, line 10)


@piece(UPDATE)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    add_score(policy, obs, action, 1.0, sampler.vectors)  # S += ∇ log π_e(a|s)      (Alg. 1, line 11)
    Memory(sampler.memory).k += 1.0  # k += 1                                        (Alg. 1, line 12)
