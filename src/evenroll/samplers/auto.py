"""Sampling that keeps the data on-policy by itself: no step size, no backward pass.

What it balances. The return of an episode is G = v + [start state] + Σ_t γᵗ A(s_t, a_t) + [environment noise], exactly.
Write A(s, a) ≈ w·x(a) ⊗ ψ(s), x the scores of the action (mean 0 under π_e, see `kernel.scores`) and ψ what the policy's
outputs are linear in. Then the luck of the actions in the mean return is  w·S/n,  S = Σ γᵗ x ⊗ ψ: the *discounted* sum of
scores. On-policy, S wanders as √k; here every step draws its action from

    π_b = π_e · (1 − τ·x),    τ = κ (k/D) ψᵀ K⁻¹ S,    K = Σ γ²ᵗ ψψᵀ (weighted by the scores' variance), D directions

so that E[Δ S] is κ times the part of S that one step can repay: K⁻¹ makes it free of units, D/k is the mean leverage
ψᵀK⁻¹ψ of a step. The ratio is linear in x, not exponential: then E_b[x] is linear in S and leaves no bias of its own.

Tables: every state is its own block, ψ = [1, t]: a time limit makes A depend on t, but less (PRIOR_OF_TIME) than on the
state. One visit may repay all (κ ≈ 1), for the scores of a table span every advantage.
Networks: one block. Advantages outside the span feel the tilt as a bias of order κ, so κ = ½ min(1, D²/k) and the bias
falls as 1/n, while what is left of w·S is 1/D of the on-policy error. Derivation and measurements: docs/auto.md.
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
    FUSED,
    LOG_BEHAVIOR,
    UPDATE,
    Floats,
    Piece,
    PolicyView,
    SamplerView,
    draw_tilted,
    features,
    forward,
    log_tilted,
    piece,
    scores,
    shift,
    tilt,
)
from evenroll.policies import MLP, Policy
from evenroll.samplers.base import Sampler, require
from evenroll.simd import dot, load, over_columns

GAIN_TABLE = 3.0  # logits per count; 2 for two actions, where 2 repays all. 2 … 4 measure alike
GAIN_NETWORK = 0.5  # of what a step could repay
PRIOR_OF_TIME = 0.1  # share of a table's advantages thought to change with time
EVERY_STEP = 32  # K learns from every step up to 32 D of them, then from one in STRIDE
STRIDE = 4

# memory: the clock, then scratch, then what was learnt
K_, T_, DISCOUNT, NEXT = 0, 1, 2, 3
HEAD = 4
# hyper
MAX_KL, GAMMA, STATES, WIDTH, DIRECTIONS, DISCRETE = 0, 1, 2, 3, 4, 5
# a table's block: visits, Σγ²ᵗ, Σγ²ᵗt, Σγ²ᵗt², then S and Σ γᵗ t x
BLOCK = 4


@dataclass(frozen=True)
class Auto(Sampler):
    """Tilts π_e against the imbalance of the data so far. max_kl: never further than this from π_e, nats per step."""

    max_kl: float = math.inf
    name = "auto"

    def __post_init__(self) -> None:
        require(self.max_kl >= 0.0, f"auto: max_kl must be a number ≥ 0, not {self.max_kl}")

    def _shown(self) -> list[tuple[str, Any]]:
        return [] if math.isinf(self.max_kl) else super()._shown()

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "log_behavior": log_behavior, "update": update, "end_episode": end_episode}

    def hyper(self, policy: Policy, value: float, gamma: float) -> np.ndarray:
        width = policy.head_weight.shape[1] + 1 if isinstance(policy, MLP) else 1
        discrete = policy.n_actions is not None
        kinds = int(policy.dims[0]) - (1 if discrete else 0)  # scores of discrete actions sum to 0
        return np.array([self.max_kl, gamma, policy.n_states or 0, width, width * kinds, discrete], dtype=np.float64)

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        n = int(policy.dims[0])
        if policy.n_states is not None:
            memory = np.zeros(HEAD + 2 * n + policy.n_states * (BLOCK + 2 * n))
        else:
            D = int(self.hyper(policy, 1.0, 1.0)[WIDTH])
            memory = np.zeros(HEAD + 2 * n + 2 * D + 2 * n * D + 3 * D * D)
        memory[DISCOUNT], memory[NEXT] = 1.0, 8.0
        return np.zeros(1, dtype=policy.dtype), memory


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    forward(policy, sampler.vectors, 0.0, obs)
    by = shift(sampler.memory, HEAD)
    if sampler.hyper[STATES] > 0.0:
        _tilt_of_table(policy, sampler, obs, by)
    else:
        _tilt_of_network(policy, sampler, by)
    _tilt_within(policy, sampler.hyper[MAX_KL], by)
    draw_tilted(policy, u, action)


@njit
def _tilt_within(policy: PolicyView, max_kl: float, by: Floats) -> None:
    """π_b = π_e (1 − by·x), by shrunk until KL(π_b ‖ π_e) ≤ max_kl."""
    n = policy.dims[0]
    kl = tilt(policy, by)
    tries = 0
    while not kl <= max_kl:  # also if a number has gone bad
        tries += 1
        shrink = 0.95 * math.sqrt(max_kl / kl) if tries < 10 and math.isfinite(kl) else 0.0
        for i in range(n):
            by[i] = by[i] * shrink if shrink > 0.0 else 0.0
        kl = tilt(policy, by)
        if shrink == 0.0:
            break


@njit
def _tilt_of_table(policy: PolicyView, sampler: SamplerView, obs: Floats, by: Floats) -> None:
    """by = η y: y what this visit should repay, in the metric that counts S² /N + PRIOR · (Σ x (t − t̄))² / V."""
    n, t, discount = policy.dims[0], sampler.memory[T_], sampler.memory[DISCOUNT]
    block = shift(by, 2 * n + int(obs[0]) * (BLOCK + 2 * n))
    visits, N, first, second = block[0], block[1], block[2], block[3]
    S, late = shift(block, BLOCK), shift(block, BLOCK + n)
    gain = min(GAIN_TABLE, float(n)) * discount
    if N * gain <= 0.0:
        for i in range(n):
            by[i] = 0.0
        return
    mean = first / N
    V = max(second - first * mean, 0.0) + 1.0
    beyond = t - mean
    prior = PRIOR_OF_TIME * beyond / V
    leverage = (1.0 + prior * beyond * N) / visits
    for i in range(n):
        by[i] = gain * (S[i] / N + prior * (late[i] - mean * S[i])) / leverage


@over_columns(4)
def _dot(size: int) -> Any:
    """result += Σ a b."""

    def columns(o: int, a: Floats, b: Floats, result: Floats) -> None:
        result[0] += dot(load(a, o, size), load(b, o, size))

    return columns


LANES = 4  # of float64


@njit
def _features_now(policy: PolicyView, sampler: SamplerView) -> Floats:
    """γᵗ ψ(s), in the sampler's scratch."""
    psi = shift(sampler.memory, HEAD + 2 * policy.dims[0])
    features(policy, psi)
    for i in range(int(sampler.hyper[WIDTH])):
        psi[i] *= sampler.memory[DISCOUNT]
    return psi


@njit
def _tilt_of_network(policy: PolicyView, sampler: SamplerView, by: Floats) -> None:
    """by = κ (k/D) ψᵀ K⁻¹ S = c ψᵀβ, with c = ½ min(1/D, D/k); β = (K/k)⁻¹ S is kept up to date by `update`."""
    n, D, directions = policy.dims[0], int(sampler.hyper[WIDTH]), sampler.hyper[DIRECTIONS]
    psi = _features_now(policy, sampler)
    beta = shift(psi, 2 * D + n * D)
    c = GAIN_NETWORK * min(1.0 / directions, directions / (sampler.memory[K_] + 1.0))
    for i in range(n):
        by[i] = 0.0
        _dot(D, LANES, psi, shift(beta, i * D), shift(by, i))
        by[i] *= c


@piece(LOG_BEHAVIOR)
def log_behavior(policy: PolicyView, sampler: SamplerView, action: Floats) -> float:
    return log_tilted(policy, action)


@piece(UPDATE, fastmath=FUSED)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    memory = sampler.memory
    n, t, discount = policy.dims[0], memory[T_], memory[DISCOUNT]
    x = shift(memory, HEAD + n)
    scores(policy, action, x)
    if sampler.hyper[STATES] > 0.0:
        block = shift(x, n + int(obs[0]) * (BLOCK + 2 * n))
        weight = discount * discount
        block[0] += 1.0
        block[1] += weight
        block[2] += weight * t
        block[3] += weight * t * t
        S, late = shift(block, BLOCK), shift(block, BLOCK + n)
        for i in range(n):
            S[i] += discount * x[i]
            late[i] += discount * t * x[i]
    else:
        _learn(policy, sampler, x, int(action[0]) if sampler.hyper[DISCRETE] == 1.0 else -1)
    memory[K_] += 1.0
    memory[T_] += 1.0
    memory[DISCOUNT] *= sampler.hyper[GAMMA]


@njit
def _learn(policy: PolicyView, sampler: SamplerView, x: Floats, chosen: int) -> None:
    """S += x ⊗ ψ, β += x ⊗ Pψ, K += spread ψψᵀ;  P = (K/k)⁻¹ anew whenever k has grown by a third."""
    memory = sampler.memory
    n, D, k = policy.dims[0], int(sampler.hyper[WIDTH]), memory[K_] + 1.0
    psi = _features_now(policy, sampler)
    P_psi = shift(psi, D)
    S, beta = shift(psi, 2 * D), shift(psi, 2 * D + n * D)
    K, P = shift(beta, n * D), shift(beta, n * D + D * D)
    for i in range(D):
        P_psi[i] = 0.0
    for j in range(D):
        h = psi[j]
        if h != 0.0:
            row = shift(P, j * D)
            for i in range(D):
                P_psi[i] += h * row[i]
    for r in range(n):
        s, b, y = shift(S, r * D), shift(beta, r * D), x[r]
        for i in range(D):
            s[i] += y * psi[i]
            b[i] += y * P_psi[i]
    plenty = k > EVERY_STEP * D
    if not plenty or int(k) % STRIDE == 0:
        weight = float(STRIDE) if plenty else 1.0
        if chosen >= 0:  # the mean variance of the scores over their n − 1 directions: (1 − Σ π²)/(n − 1)
            same = 0.0
            for i in range(n):
                p = (1.0 if i == chosen else 0.0) - x[i]
                same += p * p
            weight *= (1.0 - same) / (n - 1)
        for j in range(D):
            h = weight * psi[j]
            if h != 0.0:
                row = shift(K, j * D)
                for i in range(D):
                    row[i] += h * psi[i]
    if k >= memory[NEXT]:
        memory[NEXT] = math.ceil(k * 4.0 / 3.0)
        _invert(D, K, k, P, shift(P, D * D))
        for r in range(n):
            s, b = shift(S, r * D), shift(beta, r * D)
            for i in range(D):
                b[i] = 0.0
            for j in range(D):
                row = shift(P, j * D)
                for i in range(D):
                    b[i] += s[j] * row[i]


@njit
def _invert(D: int, K: Floats, k: float, P: Floats, L: Floats) -> None:
    """P = ((K + ridge)/k)⁻¹ by Cholesky; the ridge is one step of average features."""
    trace = 0.0
    for i in range(D):
        trace += K[i * D + i]
    ridge = max(trace / (k * D), 1e-12)
    for i in range(D):
        for j in range(i + 1):
            total = K[i * D + j] / k + (ridge / k if i == j else 0.0)
            for m in range(j):
                total -= L[i * D + m] * L[j * D + m]
            L[i * D + j] = math.sqrt(max(total, 1e-300)) if i == j else total / L[j * D + j]
    for j in range(D):  # each column of P: L y = e_j, then Lᵀ p = y
        p = shift(P, j * D)  # P is symmetric: a row is a column
        for i in range(D):
            total = 1.0 if i == j else 0.0
            for m in range(j, i):
                total -= L[i * D + m] * p[m]
            p[i] = total / L[i * D + i] if i >= j else 0.0
        for back in range(D):
            i = D - 1 - back
            total = p[i]
            for m in range(i + 1, D):
                total -= L[m * D + i] * p[m]
            p[i] = total / L[i * D + i]


@piece(END_EPISODE)
def end_episode(policy: PolicyView, sampler: SamplerView, episode_return: float, log_weight: float) -> None:
    sampler.memory[T_], sampler.memory[DISCOUNT] = 0.0, 1.0
