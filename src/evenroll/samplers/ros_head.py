"""ROS in the policy's last layer: Algorithm 1 with only the parameters of the head, no backward pass.

The outputs are W ψ(s), ψ = [last hidden activations, 1], so the score of the head is d ⊗ ψ, d = ∂ log π_e(a|s)/∂ outputs,
and at θ_e − (α/k) S they are the outputs at θ_e minus (α/k) S ψ. On a table the logits are the head: this is ROS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenroll.kernel import (
    CHOOSE,
    UPDATE,
    Floats,
    Piece,
    PolicyView,
    SamplerView,
    add_score,
    draw,
    features,
    forward,
    out_b,
    piece,
    shift,
)
from evenroll.policies import MLP, Policy
from evenroll.policies.heads import score_categorical, score_gaussian, tame
from evenroll.samplers.base import Sampler, require

LARGEST = 1e100  # keeps α/k · S from overflowing
ALPHA, WIDTH, OWN_SCALE = 0, 1, 2  # hyper; WIDTH is the length of ψ, 0 on a table


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

    def hyper(self, policy: Policy, value: float, gamma: float) -> np.ndarray:
        if not isinstance(policy, MLP):
            return np.array([self.alpha, 0.0, 0.0])
        own_scale = policy.head == "gaussian" and policy.scale == "log_std"
        return np.array([self.alpha, policy.head_weight.shape[1] + 1, own_scale], dtype=np.float64)

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        width = int(self.hyper(policy, 1.0, 1.0)[WIDTH])
        n_out = int(policy.dims[0])
        vectors = policy.zero_vector() if width == 0 else np.zeros(width, dtype=policy.dtype)  # S of a table; or ψ
        return vectors, np.zeros(1 + n_out + n_out * width)  # k; d; S of a network, in double precision


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    k, width, n = sampler.memory[0], int(sampler.hyper[WIDTH]), policy.dims[0]
    c = min(sampler.hyper[ALPHA] / k, LARGEST) if k > 0.0 else 0.0
    if width == 0:
        forward(policy, sampler.vectors, c, obs)
    else:
        forward(policy, sampler.vectors, 0.0, obs)
        psi, behavior = sampler.vectors, out_b(policy)
        features(policy, 1.0, psi)
        for o in range(n):
            S, change = shift(sampler.memory, 1 + n + o * width), 0.0
            for i in range(width):
                change += S[i] * psi[i]
            behavior[o] = policy.out[o] - c * change
        tame(policy)
    draw(policy, u, action)


@piece(UPDATE)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    width, n = int(sampler.hyper[WIDTH]), policy.dims[0]
    if width == 0:
        add_score(policy, obs, action, 1.0, sampler.vectors)
    else:
        d, psi = shift(sampler.memory, 1), sampler.vectors
        if policy.dims[9] == 1:
            score_gaussian(policy.dims, policy.out, action, 1.0, d)
        else:
            score_categorical(n, policy.out, action, 1.0, d)
        features(policy, 1.0, psi)  # also where nothing was chosen: initial data
        for o in range(n):
            S = shift(sampler.memory, 1 + n + o * width)
            if sampler.hyper[OWN_SCALE] == 1.0 and o % 2 == 1:  # log_std is a parameter by itself
                S[width - 1] += d[o]
            else:
                for i in range(width):
                    S[i] += d[o] * psi[i]
    sampler.memory[0] += 1.0
