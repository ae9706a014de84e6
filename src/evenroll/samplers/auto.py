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
Networks: one block. Advantages outside the span feel the tilt as a bias of order κ, so κ = ½ min(1, 2√(D/k), 32 D/k): in the
end the bias falls as 1/n, while what is left of w·S is 1/32 of the on-policy error. Derivation, experiments: docs/auto.md.
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
    Ints,
    Piece,
    PolicyView,
    Reals,
    SamplerView,
    draw_tilted,
    features,
    forward,
    log_tilted,
    piece,
    real,
    scores,
    shift,
    tilt,
)
from evenroll.policies import Outside, Policy
from evenroll.samplers.base import Sampler, require
from evenroll.simd import add, dot, fma, lanes_of, list_positive, load, multiply, narrow, over_columns, splat, store

GAIN_TABLE = 3.0  # logits per count; 2 for two actions, where 2 repays all. 2 … 4 measure alike
GAIN_NETWORK = 0.5  # of what a step could repay
MIDDLE = 2.0  # past k = 4 D the gain falls as 1/√k: the bias that a tilt costs is as large as what it leaves
NATS = 5.0  # KL that a whole episode may cost: a tilt that lasts for long bends the return to second order
KEEP = 32.0  # past k = 256 D as 1/k: 1/32 of the actions' error stays, and the bias falls as 1/n
ENOUGH = 0.75  # steps per direction before which K is hardly known, and S mostly the episode's own echo: less gain
PRIOR_OF_TIME = 0.03  # share of a table's advantages thought to change with time
EVERY_STEP = 32  # K learns from every step up to 32 per feature, then from one in STRIDE
STRIDE = 16

# memory: the clock, then scratch, then what was learnt
K_, T_, DISCOUNT, NEXT, KNOWN, TIMES = 0, 1, 2, 3, 4, 5
HEAD = 6
# hyper
MAX_KL, GAMMA, STATES, WIDTH, DIRECTIONS, DISCRETE = 0, 1, 2, 3, 4, 5
# a table's block: visits, Σγ²ᵗ, Σγ²ᵗt, Σγ²ᵗt², then S and Σ γᵗ t x
BLOCK = 4


@dataclass(frozen=True)
class Auto(Sampler):
    """Tilts π_e against the imbalance of the data so far. max_kl: never further than this from π_e, nats per step."""

    max_kl: float = math.inf
    name = "auto"
    needs_rewards = False
    trajectory = (T_, DISCOUNT)

    def __post_init__(self) -> None:
        require(self.max_kl >= 0.0, f"auto: max_kl must be a number ≥ 0, not {self.max_kl}")

    def _shown(self) -> list[tuple[str, Any]]:
        return [] if math.isinf(self.max_kl) else super()._shown()

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "log_behavior": log_behavior, "update": update, "end_episode": end_episode}

    def hyper(self, policy: Policy, value: float, gamma: float) -> np.ndarray:
        width, kinds = policy.feature_width, policy.score_kinds
        discrete = 1 if policy.n_actions is not None else 2 if isinstance(policy, Outside) and policy.choices else 0
        return np.array([self.max_kl, gamma, policy.n_states or 0, width, width * kinds, discrete], dtype=np.float64)

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        n = int(policy.dims[0])
        vectors = np.zeros(1, dtype=policy.dtype)
        if policy.n_states is not None:
            memory = np.zeros(HEAD + 2 * n + policy.n_states * (BLOCK + 2 * n))
        else:
            D = int(self.hyper(policy, 1.0, 1.0)[WIDTH])
            memory = np.zeros(HEAD + 2 * n + 2 * D * D)
            D += 8 - D % 8
            vectors = np.zeros(2 * D + 2 * n * D + D * D, dtype=policy.dtype)
        memory[DISCOUNT], memory[NEXT] = 1.0, 8.0
        return vectors, memory


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    forward(policy, sampler.vectors, 0.0, obs)
    sampler.memory[KNOWN] = 1.0
    by = shift(sampler.memory, HEAD)
    if sampler.hyper[STATES] > 0.0:
        _tilt_of_table(policy, sampler, obs, by)
    else:
        _tilt_of_network(policy, sampler, lanes_of(real), by)
    _tilt_within(policy, sampler.hyper[MAX_KL], by)
    draw_tilted(policy, u, action)


@njit
def _tilt_within(policy: PolicyView, max_kl: float, by: Floats) -> None:
    """π_b = π_e (1 − by·x), by shrunk until KL(π_b ‖ π_e) ≤ max_kl."""
    n = policy.dims[0]
    kl = tilt(policy, by, max_kl)
    tries = 0
    while kl > max_kl:
        tries += 1
        shrink = 0.95 * math.sqrt(max_kl / kl) if tries < 10 else 0.0
        for i in range(n):
            by[i] *= shrink
        kl = tilt(policy, by, max_kl)
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


@njit
def _vectors(policy: PolicyView, sampler: SamplerView) -> tuple[int, Any, Any, Any, Any, Any]:
    """D, rounded up to full registers, and ψ, Pψ [D], S, β [n, D], P [D, D]."""
    D, n, psi = _padded(int(sampler.hyper[WIDTH])), policy.dims[0], sampler.vectors
    S = shift(psi, 2 * D)
    return D, psi, shift(psi, D), S, shift(S, n * D), shift(S, 2 * n * D)


@njit
def _rows(policy: PolicyView, sampler: SamplerView) -> int:
    """Scores to keep sums of: those of a discrete action add up to 0, the last follows from the others."""
    return policy.dims[0] - (1 if sampler.hyper[DISCRETE] == 1.0 else 0)


@njit
def _padded(width: int) -> int:
    """Full registers, and at least one zero beyond the width."""
    return width + 8 - width % 8


@njit
def gain(directions: float, k: float, length: float) -> float:
    """c, what part of S one step repays: ½ min(1/D, 2/√(Dk), 32/k), less while k < ¾ D, never more than NATS an episode."""
    early = min(k / (ENOUGH * directions), 1.0)
    falling = min(MIDDLE / math.sqrt(directions * k), min(directions, KEEP) / k)
    return min(GAIN_NETWORK * min(early * early / directions, falling), 4.0 * NATS / (length * directions))


@njit
def _tilt_of_network(policy: PolicyView, sampler: SamplerView, lanes: int, by: Floats) -> None:
    """by = κ (k/D) ψᵀ K⁻¹ S = c ψᵀβ, c = κ/D; β = (K/k)⁻¹ S comes from `update`. Episodes are about 2 t̄ long."""
    directions, k = sampler.hyper[DIRECTIONS], sampler.memory[K_] + 1.0
    D, psi, _, _, beta, _ = _vectors(policy, sampler)
    features(policy, sampler.memory[DISCOUNT], psi)
    c = gain(directions, k, 2.0 * sampler.memory[TIMES] / k + 1.0)
    rows, rest = _rows(policy, sampler), 0.0
    for i in range(rows):
        by[i] = 0.0
        _dot(D, lanes, psi, shift(beta, i * D), shift(by, i))
        by[i] = c * by[i] if math.isfinite(by[i]) else 0.0
        rest -= by[i]
    if rows < policy.dims[0]:
        by[rows] = rest


@piece(LOG_BEHAVIOR)
def log_behavior(policy: PolicyView, sampler: SamplerView, action: Floats) -> float:
    return log_tilted(policy, action)


@piece(UPDATE, fastmath=FUSED)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    memory = sampler.memory
    n, t, discount = policy.dims[0], memory[T_], memory[DISCOUNT]
    by, x = shift(memory, HEAD), shift(memory, HEAD + n)
    known = memory[KNOWN] == 1.0
    memory[KNOWN] = 0.0
    if not known:  # initial data: nothing was chosen here
        for i in range(n):
            by[i] = 0.0
        tilt(policy, by, math.inf)
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
        if not known:
            features(policy, discount, sampler.vectors)
        _learn(policy, sampler, lanes_of(real), x, int(action[0]) if sampler.hyper[DISCRETE] == 1.0 else -1)
    memory[K_] += 1.0
    memory[TIMES] += t
    memory[T_] += 1.0
    memory[DISCOUNT] *= sampler.hyper[GAMMA]


@njit
def _learn(policy: PolicyView, sampler: SamplerView, lanes: int, x: Floats, chosen: int) -> None:
    """S += x ⊗ ψ, β += x ⊗ Pψ, K += spread ψψᵀ;  P = (K/k)⁻¹ anew whenever k has grown by a third."""
    memory, n, width = sampler.memory, policy.dims[0], int(sampler.hyper[WIDTH])
    k = memory[K_] + 1.0
    D, psi, P_psi, S, beta, P = _vectors(policy, sampler)
    active = policy.index  # scratch: the features that are not 0
    count = 0
    for j in range(0, D, lanes):
        some = load(psi, j, 1)
        count = list_positive(some, multiply(some, splat(narrow(-1.0, psi), 1)), j, active, count)
    active[count] = width
    rows = _rows(policy, sampler)
    _combine(D, lanes, D, count, active, psi, P, P_psi)
    for r in range(rows):
        _add(D, lanes, narrow(x[r], psi), psi, shift(S, r * D))
        _add(D, lanes, narrow(x[r], psi), P_psi, shift(beta, r * D))
    K = shift(x, n)
    inverse = shift(K, width * width)
    plenty = k > EVERY_STEP * width
    if not plenty or int(k) % STRIDE == 0:
        weight = float(STRIDE) if plenty else 1.0
        if chosen >= 0:  # the mean variance of the scores over their n − 1 directions: (1 − Σ π²)/(n − 1)
            same = 0.0
            for i in range(n):
                p = (1.0 if i == chosen else 0.0) - x[i]
                same += p * p
            weight *= (1.0 - same) / (n - 1)
        elif sampler.hyper[DISCRETE] == 2.0:  # several discrete factors: what their scores came to, of the same mean
            square = 0.0
            for i in range(n):
                square += x[i] * x[i]
            weight *= square * sampler.hyper[WIDTH] / sampler.hyper[DIRECTIONS]
        wide = inverse  # scratch: ψ in double precision
        for i in range(width):
            wide[i] = psi[i]
        for j in range(width):
            if wide[j] != 0.0:
                _add(width, 4, weight * wide[j], wide, shift(K, j * width))
    if k >= memory[NEXT]:
        memory[NEXT] = math.ceil(k * 4.0 / 3.0)
        _invert(width, K, k, inverse)
        for j in range(width):
            for i in range(width):
                P[j * D + i] = narrow(inverse[j * width + i], psi)
        for j in range(width + 1):
            active[j] = j
        for r in range(rows):
            _combine(D, lanes, D, width, active, shift(S, r * D), P, shift(beta, r * D))


@over_columns(4)
def _dot(size: int) -> Any:
    """result += Σ a b."""

    def columns(o: int, a: Reals, b: Reals, result: Floats) -> None:
        result[0] += dot(load(a, o, size), load(b, o, size))

    return columns


@over_columns(4)
def _add(size: int) -> Any:
    """b += y a."""

    def columns(o: int, y: float, a: Reals, b: Reals) -> None:
        store(b, o, fma(splat(y, size), load(a, o, size), load(b, o, size)))

    return columns


@over_columns(8)
def _combine(size: int) -> Any:
    """result = Σ_j a_j P[j, :] over the listed j, as two sums that need not wait for each other."""

    def columns(o: int, D: int, count: int, active: Ints, a: Reals, P: Reals, result: Reals) -> None:
        even, odd = splat(narrow(0.0, a), size), splat(narrow(0.0, a), size)
        for i in range(0, count, 2):  # one more is listed: a zero
            j, m = active[i], active[i + 1]
            even = fma(splat(a[j], size), load(P, j * D + o, size), even)
            odd = fma(splat(a[m], size), load(P, m * D + o, size), odd)
        store(result, o, add(even, odd))

    return columns


@njit
def _invert(D: int, K: Floats, k: float, P: Floats) -> None:
    """P = ((K + ridge)/k)⁻¹ by Gauss and Jordan, the ridge is one step of average features."""
    trace = 0.0
    for i in range(D):
        trace += K[i * D + i]
    ridge = max(trace / (k * D), 1e-12)
    for i in range(D):
        for j in range(D):
            P[i * D + j] = (K[i * D + j] + (ridge if i == j else 0.0)) / k
    for p in range(D):
        pivot = shift(P, p * D)
        scale = 1.0 / max(pivot[p], 1e-9 * ridge / k)  # positive but for rounding
        pivot[p] = 1.0
        for j in range(D):
            pivot[j] *= scale
        for i in range(D):
            if i != p:
                row = shift(P, i * D)
                factor = row[p]
                row[p] = 0.0
                _add(D, 4, -factor, pivot, row)


@piece(END_EPISODE)
def end_episode(policy: PolicyView, sampler: SamplerView, episode_return: float, log_weight: float) -> None:
    sampler.memory[T_], sampler.memory[DISCOUNT] = 0.0, 1.0
