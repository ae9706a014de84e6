"""ROS in the policy's last layer: Algorithm 1 with only the parameters of the head, and without a backward pass.

The outputs are W ψ(s), ψ = [last hidden activations, 1], so the score of the head is d ⊗ ψ, d = ∂ log π_e(a|s)/∂ outputs.
At θ_e − (α/k) S the outputs are those at θ_e minus (α/k) S ψ. On a table the logits are the head, so there this is ROS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Floats, Piece, piece, shift
from evenroll.engine.views import Fields, beyond
from evenroll.policies import MLP, Policy
from evenroll.policies.heads import score_categorical, score_gaussian, tame
from evenroll.policies.interface import PolicyView, add_score, draw, features, forward, out_b
from evenroll.samplers.base import Sampler, require
from evenroll.samplers.interface import CHOOSE, UPDATE, SamplerView

LARGEST = 1e100  # keeps α/k · S from overflowing


class Settings(Fields):
    alpha: float
    width: float  # the length of ψ; 0 on a table
    own_scale: float  # 1 if log_std is a parameter by itself


class Memory(Fields):
    """Behind this entry follow d, the score of the outputs, and then S of a network, in double precision."""

    k: float  # steps so far


@dataclass(frozen=True)
class ROSHead(Sampler):
    """Act with π whose last layer is moved by −α times the mean score of all data so far."""

    alpha: float
    name = "ros-head"

    def __post_init__(self) -> None:
        good = math.isfinite(self.alpha) and self.alpha >= 0
        require(good, f"ros-head: alpha must be a number ≥ 0, not {self.alpha}")

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "update": update}

    def settings(self, policy: Policy, value: float, gamma: float) -> np.ndarray:
        if not isinstance(policy, MLP):
            return np.array([self.alpha, 0.0, 0.0])
        own_scale = policy.head == "gaussian" and policy.scale == "log_std"
        return np.array([self.alpha, policy.head_weight.shape[1] + 1, own_scale], dtype=np.float64)

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        width = int(Settings(self.settings(policy, 1.0, 1.0)).width)
        n_out = int(policy.sizes.outputs)
        vectors = policy.zero_vector() if width == 0 else np.zeros(width, dtype=policy.dtype)  # S of a table; or ψ
        return vectors, np.zeros(Memory.count + n_out + n_out * width)


@helper
def _sum(sampler: SamplerView, outputs: int, output: int, width: int) -> Floats:
    """The part of S that belongs to one output."""
    return shift(beyond(Memory(sampler.memory)), outputs + output * width)


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    settings, k, n = Settings(sampler.settings), Memory(sampler.memory).k, policy.sizes.outputs
    width = int(settings.width)
    c = min(settings.alpha / k, LARGEST) if k > 0.0 else 0.0
    if width == 0:
        forward(policy, sampler.vectors, c, obs)
    else:
        forward(policy, sampler.vectors, 0.0, obs)
        psi, behavior = sampler.vectors, out_b(policy)
        features(policy, 1.0, psi)
        for o in range(n):
            S, change = _sum(sampler, n, o, width), 0.0
            for i in range(width):
                change += S[i] * psi[i]
            behavior[o] = policy.out[o] - c * change
        tame(policy)
    draw(policy, u, action)


@piece(UPDATE)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    settings, memory, n = Settings(sampler.settings), Memory(sampler.memory), policy.sizes.outputs
    width = int(settings.width)
    if width == 0:
        add_score(policy, obs, action, 1.0, sampler.vectors)
    else:
        d, psi = beyond(memory), sampler.vectors
        if policy.sizes.gaussian == 1:
            score_gaussian(policy.sizes, policy.out, action, 1.0, d)
        else:
            score_categorical(n, policy.out, action, 1.0, d)
        features(policy, 1.0, psi)  # computed again, because for initial data `choose` has not run
        for o in range(n):
            S = _sum(sampler, n, o, width)
            if settings.own_scale == 1.0 and o % 2 == 1:  # log_std is a parameter by itself
                S[width - 1] += d[o]
            else:
                for i in range(width):
                    S[i] += d[o] * psi[i]
    memory.k += 1.0
