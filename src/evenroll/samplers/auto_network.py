"""`auto` on a network: one block of D directions, and the schedule of its gain.

Advantages outside the span of the scores feel the tilt as a bias of order κ. So κ must fall:

    κ = ½ min(1, 2√(D/k), 32 D/k)

In the end the bias falls as 1/n, while what is left of w·S is 1/32 of the on-policy error.

S holds all finished trajectories, what was expected of the running ones, and a share of their luck; Δ, the surprise, is the
rest of what the draws of a running trajectory add to that. Each of several trajectories side by side has a Δ of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Floats, Ints, Piece, Reals, shift
from evenroll.engine.scalars import larger, smaller, whole
from evenroll.engine.simd import add, dot, fma, list_positive, load, multiply, narrow, over_columns, splat, store
from evenroll.engine.views import beyond
from evenroll.policies import Policy
from evenroll.policies.interface import PolicyView, features
from evenroll.samplers.auto_state import SEVERAL_DISCRETE, Memory, Settings
from evenroll.samplers.interface import SamplerView
from evenroll.samplers.sums import Sums

# docs/experiments-auto.md has the experiments that decided these constants.
GAIN_NETWORK = 0.5  # κ at first: the share that is repaid of what a step could repay
MIDDLE = 2.0  # past k = 4 D the gain falls as 1/√k: there the bias that a tilt costs is as large as the error it leaves
NATS = 5.0  # the KL that a whole episode may cost: a tilt that lasts for long bends the return to second order
KEEP = 32.0  # past k = 256 D the gain falls as 1/k: 1/32 of the actions' error stays, and the bias falls as 1/n
ECHO = 175.0  # episodes after which half of a step's luck waits for the end of its episode
ENOUGH = 0.75  # with fewer steps per direction the gain is smaller: K is hardly known, and S mostly the episode's own echo
EVERY_STEP = 32  # K learns from every step up to 32 steps per feature, and then from one in STRIDE
STRIDE = 16


def surprise_of_network(policy: Policy) -> int:
    """How many numbers Δ has, of which each trajectory has its own."""
    width = policy.feature_width
    return int(policy.sizes.outputs) * (width + 8 - width % 8)


def network_state(policy: Policy) -> tuple[np.ndarray, int]:
    """(vectors, how many numbers the sums have). The vectors ψ, Pψ, S, β, P are in the policy's precision.

    The sums are K and its inverse, in double precision.
    """
    width, n = policy.feature_width, int(policy.sizes.outputs)
    D = width + 8 - width % 8
    return np.zeros(2 * D + 2 * n * D + D * D, dtype=policy.dtype), 2 * width * width


def sums_of_network(policy: Policy, counts: list[int], first: int, settle: Piece) -> Sums:
    """S and K are sums over steps. `first` is the place of K in the memory, `counts` those of the plain counts."""
    width, n = policy.feature_width, int(policy.sizes.outputs)
    D = width + 8 - width % 8
    memory = np.concatenate([counts, np.arange(first, first + width * width)]).astype(np.int64)
    S, both = slice(2 * D, 2 * D + n * D), slice(2 * D, 2 * D + 2 * n * D)  # both: S and β = P S
    return Sums(vectors=S, memory=memory, owed_vectors=both, settle=settle)


def told_of_network(settings: Settings, memory: Memory, blocks: int, steps: float) -> float:
    """All of S, as long as the blocks together do not repay more than all of it; else what makes them repay just that.

    A step repays the share c of S (`gain`), and so the blocks repay c · steps of it, where none sees the others. A single
    block repays no more than it is told of.
    """
    k = float(memory.k)
    if k == 0.0:
        return 1.0
    repaid = float(gain(float(settings.directions), k, 2.0 * float(memory.times) / k + 1.0)) * steps
    return min(1.0, max(1.0 / blocks, 1.0 / max(repaid, 1e-9)))


@helper
def _vectors(policy: PolicyView, sampler: SamplerView) -> tuple[int, Any, Any, Any, Any, Any]:
    """(D, ψ, Pψ, S, β, P): D is rounded up to full registers; ψ, Pψ are [D], S, β are [n, D], P is [D, D]."""
    D, n, psi = _padded(whole(Settings(sampler.settings).width)), policy.sizes.outputs, sampler.vectors
    S = shift(psi, 2 * D)
    return D, psi, shift(psi, D), S, shift(S, n * D), shift(S, 2 * n * D)


@helper
def _surprise(policy: PolicyView, sampler: SamplerView) -> Any:
    """Δ [n, D] of the running trajectory. Those of all that run side by side lie behind the other vectors."""
    D, n = _padded(whole(Settings(sampler.settings).width)), policy.sizes.outputs
    return shift(sampler.vectors, 2 * D + 2 * n * D + D * D + whole(Memory(sampler.memory).lane) * n * D)


@helper
def _rows(policy: PolicyView, sampler: SamplerView) -> int:
    """How many scores are summed. A discrete action's scores add up to 0, so its last one follows from the others."""
    return policy.sizes.outputs - (1 if Settings(sampler.settings).discrete == 1.0 else 0)


@helper
def _padded(width: int) -> int:
    """The width rounded up to full registers, with at least one zero beyond it."""
    return width + 8 - width % 8


@helper
def gain(directions: float, k: float, length: float) -> float:
    """c, the share of S that one step repays: ½ min(1/D, 2/√(Dk), 32/k).

    It is less while k < ¾ D, and never so much that an episode of this length would cost more than NATS.
    """
    early = smaller(k / (ENOUGH * directions), 1.0)
    falling = smaller(MIDDLE / math.sqrt(directions * k), smaller(directions, KEEP) / k)
    return smaller(GAIN_NETWORK * smaller(early * early / directions, falling), 4.0 * NATS / (length * directions))


@helper
def at_once(k: float, times: float) -> float:
    """w, the share of a step's luck that counts at once. An episode is taken to be 2 t̄ + 1 long."""
    past = k * k / (2.0 * times + k) / ECHO
    return 1.0 / (1.0 + past * past)


@helper
def tilt_of_network(policy: PolicyView, sampler: SamplerView, lanes: int, by: Floats) -> None:
    """by = κ (k/D) ψᵀ K⁻¹ S = c ψᵀβ, where c = κ/D, and β = (K/k)⁻¹ S comes from `update`.

    An episode is taken to be 2 t̄ long, twice the mean time of a step.
    """
    memory, directions = Memory(sampler.memory), Settings(sampler.settings).directions
    k = memory.k + 1.0
    D, psi, _, _, beta, _ = _vectors(policy, sampler)
    features(policy, memory.discount, psi)
    c = gain(directions, k, 2.0 * memory.times / k + 1.0)
    rows, rest = _rows(policy, sampler), 0.0
    for i in range(rows):
        by[i] = 0.0
        _dot(D, lanes, psi, shift(beta, i * D), shift(by, i))
        by[i] = c * by[i] if math.isfinite(by[i]) else 0.0
        rest -= by[i]
    if rows < policy.sizes.outputs:
        by[rows] = rest


@helper
def learn_network(policy: PolicyView, sampler: SamplerView, lanes: int, x: Floats, expected: Floats, chosen: int) -> None:
    """S += x′ ⊗ ψ, β += x′ ⊗ Pψ, Δ += (x − x′) ⊗ ψ, K += (the scores' variance) ψψᵀ, with x′ = E_b[x] + w (x − E_b[x]).

    Of a step's luck x − E_b[x] the share w counts at once, the rest when the episode has ended. With w = 1 the next step
    leans against what this one has just done, which biases every episode a little; with w = 0 the luck of the last episodes
    is not yet made up for, which matters while they are few. So w = 1/(1 + (n/ECHO)²) after n episodes.

    P = (K/k)⁻¹ is computed anew when k has grown by a third.

    chosen  the number of the action if there is one discrete action, else −1
    """
    settings, memory, n = Settings(sampler.settings), Memory(sampler.memory), policy.sizes.outputs
    width, k = whole(settings.width), memory.k + 1.0
    D, psi, P_psi, S, beta, P = _vectors(policy, sampler)
    surprise = _surprise(policy, sampler)
    active = policy.index  # scratch: the features that are not 0
    count = _list_nonzero(D, lanes, psi, active)
    active[count] = width
    _combine(D, lanes, D, count, active, psi, P, P_psi)
    w = at_once(k, memory.times)
    for r in range(_rows(policy, sampler)):
        now, o = expected[r] + w * (x[r] - expected[r]), r * D
        later = narrow(x[r] - now, psi)
        _learn(D, lanes, narrow(now, psi), later, psi, P_psi, shift(S, o), shift(beta, o), shift(surprise, o))
    K = shift(x, n)
    inverse = shift(K, width * width)
    plenty = k > EVERY_STEP * width
    if not plenty or whole(k) % STRIDE == 0:
        weight = float(STRIDE) if plenty else 1.0
        if chosen >= 0:  # weigh by the mean variance of the scores over their n − 1 directions: (1 − Σ π²)/(n − 1)
            same = 0.0
            for i in range(n):
                p = (1.0 if i == chosen else 0.0) - x[i]
                same += p * p
            weight *= (1.0 - same) / (n - 1)
        elif settings.discrete == SEVERAL_DISCRETE:  # weigh by the squares of the scores, which have their variance as mean
            square = 0.0
            for i in range(n):
                square += x[i] * x[i]
            weight *= square * settings.width / settings.directions
        wide = inverse  # scratch: ψ in double precision
        for i in range(width):
            wide[i] = psi[i]
        for j in range(width):
            if wide[j] != 0.0:
                _add(width, 4, weight * wide[j], wide, shift(K, j * width))
    if k >= memory.next_fit:
        _fit(policy, sampler, lanes, k)


@helper
def _fit(policy: PolicyView, sampler: SamplerView, lanes: int, k: float) -> None:
    """P = (K/k)⁻¹, and β = P S."""
    width, memory = whole(Settings(sampler.settings).width), Memory(sampler.memory)
    D, psi, _, _, _, P = _vectors(policy, sampler)
    K = shift(beyond(memory), 2 * policy.sizes.outputs)
    inverse = shift(K, width * width)
    memory.next_fit = math.ceil(k * 4.0 / 3.0)
    _invert(width, K, k, inverse)
    for j in range(width):
        for i in range(width):
            P[j * D + i] = narrow(inverse[j * width + i], psi)
    _solve(policy, sampler, lanes)


@helper
def refit_network(policy: PolicyView, sampler: SamplerView, lanes: int) -> None:
    """S and K were added up from several blocks: compute P anew if it is time, and β = P S."""
    memory = Memory(sampler.memory)
    if memory.k >= memory.next_fit:
        _fit(policy, sampler, lanes, memory.k)
    else:
        _solve(policy, sampler, lanes)


@helper
def settle_network(policy: PolicyView, sampler: SamplerView, lanes: int) -> None:
    """A trajectory has ended: S += Δ, and Δ is 0 for the next one."""
    D, _, _, S, _, _ = _vectors(policy, sampler)
    surprise = _surprise(policy, sampler)
    for i in range(_rows(policy, sampler) * D):
        S[i] += surprise[i]
        surprise[i] = narrow(0.0, S)
    _solve(policy, sampler, lanes)


@helper
def _solve(policy: PolicyView, sampler: SamplerView, lanes: int) -> None:
    """β = P S."""
    width, active = whole(Settings(sampler.settings).width), policy.index
    D, _, _, S, beta, P = _vectors(policy, sampler)
    for j in range(width + 1):
        active[j] = j
    for r in range(_rows(policy, sampler)):
        _combine(D, lanes, D, width, active, shift(S, r * D), P, shift(beta, r * D))


@helper
def _list_nonzero(D: int, lanes: int, psi: Reals, active: Ints) -> int:
    """List the features that are not 0. Returns how many there are."""
    count = 0
    for j in range(0, D, lanes):
        some = load(psi, j, 1)
        count = list_positive(some, multiply(some, splat(narrow(-1.0, psi), 1)), j, active, count)
    return count


@over_columns(4, padded=True, optimised=False)
def _dot(size: int) -> Any:
    """result += Σ a b."""

    def columns(o: int, a: Reals, b: Reals, result: Floats) -> None:
        result[0] += dot(load(a, o, size), load(b, o, size))

    return columns


@over_columns(4, optimised=False)
def _add(size: int) -> Any:
    """b += y a."""

    def columns(o: int, y: float, a: Reals, b: Reals) -> None:
        store(b, o, fma(splat(y, size), load(a, o, size), load(b, o, size)))

    return columns


@over_columns(4, padded=True, optimised=False)
def _learn(size: int) -> Any:
    """S += now ψ, β += now Pψ, Δ += later ψ."""

    def columns(o: int, now: float, later: float, psi: Reals, P_psi: Reals, S: Reals, beta: Reals, delta: Reals) -> None:
        y, some = splat(now, size), load(psi, o, size)
        store(S, o, fma(y, some, load(S, o, size)))
        store(beta, o, fma(y, load(P_psi, o, size), load(beta, o, size)))
        store(delta, o, fma(splat(later, size), some, load(delta, o, size)))

    return columns


@over_columns(8, padded=True, inline=False)
def _combine(size: int) -> Any:
    """result = Σ_j a_j P[j, :] over the listed j. It is taken as two sums, neither of which has to wait for the other."""

    def columns(o: int, D: int, count: int, active: Ints, a: Reals, P: Reals, result: Reals) -> None:
        even, odd = splat(narrow(0.0, a), size), splat(narrow(0.0, a), size)
        for i in range(0, count, 2):  # if `count` is odd, the one listed after the last has a_j = 0
            j, m = active[i], active[i + 1]
            even = fma(splat(a[j], size), load(P, j * D + o, size), even)
            odd = fma(splat(a[m], size), load(P, m * D + o, size), odd)
        store(result, o, add(even, odd))

    return columns


@helper
def _invert(D: int, K: Floats, k: float, P: Floats) -> None:
    """P = ((K + ridge)/k)⁻¹ by Gauss-Jordan elimination. The ridge is what one step of average features adds."""
    trace = 0.0
    for i in range(D):
        trace += K[i * D + i]
    ridge = larger(trace / (k * D), 1e-12)
    for i in range(D):
        for j in range(D):
            P[i * D + j] = (K[i * D + j] + (ridge if i == j else 0.0)) / k
    for p in range(D):
        pivot = shift(P, p * D)
        scale = 1.0 / larger(pivot[p], 1e-9 * ridge / k)  # a pivot is positive, but rounding may leave nothing of it
        pivot[p] = 1.0
        for j in range(D):
            pivot[j] *= scale
        for i in range(D):
            if i != p:
                row = shift(P, i * D)
                factor = row[p]
                row[p] = 0.0
                _add(D, 4, -factor, pivot, row)
