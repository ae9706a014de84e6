"""Sampling that keeps the data on-policy by itself: no step size, no backward pass.

What it balances. The return of an episode is G = v + [start state] + Σ_t γᵗ A(s_t, a_t) + [environment noise], exactly.
Write A(s, a) ≈ w·x(a) ⊗ ψ(s), where x are the scores of the action (mean 0 under π_e, see `policies.interface.scores`) and
ψ the features that the policy's outputs are linear in. Then the luck of the actions in the mean return is  w·S/n,  where
S = Σ γᵗ x ⊗ ψ is the *discounted* sum of scores. On-policy, S wanders as √k. Here every step draws its action from

    π_b = π_e · (1 − τ·x),    τ = κ (k/D) ψᵀ K⁻¹ S,    K = Σ γ²ᵗ ψψᵀ (weighted by the scores' variance), D directions

so that E[Δ S] is κ times the part of S that one step can repay. K⁻¹ removes the units, and D/k is the mean leverage ψᵀK⁻¹ψ
of a step. The ratio is linear in x and not exponential, because then E_b[x] is linear in S and the tilt adds no bias.

On a network a step does not answer to its own trajectory's luck. While a trajectory runs, S counts what its tilted actions
were *expected* to do, E_b[x]; how the draws came out is added when it has ended, and later trajectories repay it. Were the
luck counted at once, the next action, in much the same state, would lean against the one just taken; actions that alternate
lead elsewhere, and that is a bias (docs/experiments-auto.md, "The echo").

`auto_table.py` has τ and the sums of a table, where every state is a separate block. `auto_network.py` has those of a
network, which is a single block, and the schedule of κ. docs/experiments-auto.md has the experiments behind the constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import FUSED, Floats, Piece, piece, real, shift
from evenroll.engine.scalars import whole
from evenroll.engine.simd import width_of
from evenroll.engine.views import beyond
from evenroll.policies import Policy
from evenroll.policies.interface import PolicyView, draw_tilted, drift, features, forward_e, log_tilted, scores, tilt
from evenroll.samplers.auto_network import (
    learn_network,
    network_state,
    refit_network,
    settle_network,
    sums_of_network,
    surprise_of_network,
    tilt_of_network,
    told_of_network,
)
from evenroll.samplers.auto_state import SEVERAL_DISCRETE, Memory, Settings
from evenroll.samplers.auto_table import learn_table, sums_of_table, table_state, tilt_of_table
from evenroll.samplers.base import Sampler, require
from evenroll.samplers.interface import CHOOSE, END_EPISODE, LOG_BEHAVIOR, UPDATE, SamplerView
from evenroll.samplers.sums import Sums

WIDEST = 1100  # features: an inversion takes 0.7 s then, in which Ctrl-C has to wait; with 2,048 it takes 8 s or more


@dataclass(frozen=True)
class Auto(Sampler):
    """Tilt π_e against the imbalance of the data so far.

    max_kl  the most that π_b may differ from π_e, in nats per step
    """

    max_kl: float = math.inf
    name = "auto"
    memory = Memory
    trajectory = ("t", "discount")
    lane = "lane"

    def __post_init__(self) -> None:
        require(self.max_kl >= 0.0, f"auto: max_kl must be a number ≥ 0, not {self.max_kl}")

    def check(self, policy: Policy) -> None:
        wide = policy.n_states is None and policy.feature_width > WIDEST
        require(
            not wide,
            f"auto inverts a matrix of all features of the last layer, and {policy.feature_width:,} are too many (at most "
            f"{WIDEST:,}): take os, or ros:alpha=…, whose time grows only with the number of weights",
        )

    def _shown(self) -> list[tuple[str, Any]]:
        return [] if math.isinf(self.max_kl) else super()._shown()

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "log_behavior": log_behavior, "update": update, "end_episode": end_episode}

    def pieces_for(self, policy: Policy) -> dict[str, Piece]:
        if policy.n_states is None:
            return self.pieces()
        return self.pieces() | {"choose": choose_in_table, "update": update_table, "end_episode": end_episode_in_table}

    def settings(self, policy: Policy, value: float, gamma: float) -> np.ndarray:
        width, kinds = policy.feature_width, policy.score_kinds
        discrete = 1 if policy.n_actions is not None else SEVERAL_DISCRETE if policy.choices else 0
        return np.array([self.max_kl, gamma, width, width * kinds, discrete], dtype=np.float64)

    def each(self, policy: Policy) -> int:
        return 0 if policy.n_states is not None else surprise_of_network(policy)

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        vectors, sums = table_state(policy) if policy.n_states is not None else network_state(policy)
        memory = np.zeros(Memory.count + 2 * int(policy.sizes.outputs) + sums)
        named = Memory(memory)
        named.discount, named.next_fit = 1.0, 8.0
        return vectors, memory

    def sums(self, policy: Policy) -> Sums:
        counts = [Memory.names.index("k"), Memory.names.index("times")]
        first = Memory.count + 2 * int(policy.sizes.outputs)
        if policy.n_states is not None:
            return sums_of_table(policy, counts, first)
        return sums_of_network(policy, counts, first, settle)

    def told(self, policy: Policy, settings: np.ndarray, memory: np.ndarray, blocks: int, steps: float) -> float:
        if policy.n_states is not None:
            return super().told(policy, settings, memory, blocks, steps)
        return told_of_network(Settings(settings), Memory(memory), blocks, steps)


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    forward_e(policy, obs)
    by = beyond(Memory(sampler.memory))
    tilt_of_network(policy, sampler, width_of(real), by)
    _draw_within(policy, sampler, by, u, action)


@piece(CHOOSE)
def choose_in_table(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    forward_e(policy, obs)
    by = beyond(Memory(sampler.memory))
    tilt_of_table(policy, sampler, obs, by)
    _draw_within(policy, sampler, by, u, action)


@helper
def _draw_within(policy: PolicyView, sampler: SamplerView, by: Floats, u: Floats, action: Floats) -> None:
    Memory(sampler.memory).chosen = 1.0
    _tilt_within(policy, Settings(sampler.settings).max_kl, by)
    draw_tilted(policy, u, action)


@helper
def _tilt_within(policy: PolicyView, max_kl: float, by: Floats) -> None:
    """π_b = π_e (1 − by·x), where `by` is shrunk until KL(π_b ‖ π_e) ≤ max_kl."""
    n = policy.sizes.outputs
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


@piece(LOG_BEHAVIOR)
def log_behavior(policy: PolicyView, sampler: SamplerView, action: Floats) -> float:
    return log_tilted(policy, action)


@piece(UPDATE, fastmath=FUSED)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    settings, memory = Settings(sampler.settings), Memory(sampler.memory)
    by = beyond(memory)
    x = shift(by, policy.sizes.outputs)
    if not _scores(policy, memory, action, by, x):
        features(policy, memory.discount, sampler.vectors)
    expected = by  # the tilt has done its work
    drift(policy, expected)
    learn_network(policy, sampler, width_of(real), x, expected, whole(action[0]) if settings.discrete == 1.0 else -1)
    _count(memory, settings.gamma)


@piece(UPDATE)
def update_table(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    memory = Memory(sampler.memory)
    by = beyond(memory)
    x = shift(by, policy.sizes.outputs)
    _scores(policy, memory, action, by, x)
    learn_table(policy, memory, obs, x)
    _count(memory, Settings(sampler.settings).gamma)


@helper
def _scores(policy: PolicyView, memory: Memory, action: Floats, by: Floats, x: Floats) -> bool:
    """x = the scores of the action. Returns whether `choose` has drawn it; if not, it is initial data."""
    chosen = memory.chosen == 1.0
    memory.chosen = 0.0
    if not chosen:
        for i in range(policy.sizes.outputs):
            by[i] = 0.0
        tilt(policy, by, math.inf)
    scores(policy, action, x)
    return chosen


@helper
def _count(memory: Memory, gamma: float) -> None:
    """A step is over."""
    memory.k += 1.0
    memory.times += memory.t
    memory.t += 1.0
    memory.discount *= gamma


@piece(END_EPISODE)
def end_episode(policy: PolicyView, sampler: SamplerView, episode_return: float, log_weight: float) -> None:
    settle_network(policy, sampler, width_of(real))
    memory = Memory(sampler.memory)
    memory.t, memory.discount = 0.0, 1.0


@piece(END_EPISODE)
def end_episode_in_table(policy: PolicyView, sampler: SamplerView, episode_return: float, log_weight: float) -> None:
    memory = Memory(sampler.memory)
    memory.t, memory.discount = 0.0, 1.0


@piece(END_EPISODE)
def settle(policy: PolicyView, sampler: SamplerView, episode_return: float, log_weight: float) -> None:
    """The sums of a network were added up: compute what follows from them."""
    refit_network(policy, sampler, width_of(real))
