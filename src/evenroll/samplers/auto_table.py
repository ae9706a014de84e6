"""`auto` on a table: every state is a separate block, with ψ = [1, t].

A time limit makes advantages depend on the time, but less (PRIOR_OF_TIME) than on the state. The scores of a table span
every advantage, so one visit may repay all that a state owes (κ ≈ 1).
"""

from __future__ import annotations

import numpy as np

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import FUSED, Floats, shift
from evenroll.engine.views import Fields, beyond
from evenroll.policies import Policy
from evenroll.policies.interface import PolicyView
from evenroll.samplers.auto_state import Memory
from evenroll.samplers.interface import SamplerView
from evenroll.samplers.sums import Sums

# docs/experiments-auto.md has the experiments that decided both constants, under "Tables".
GAIN_TABLE = 3.0  # logits per count; with two actions it is 2, which repays all. 2 … 4 measure alike
PRIOR_OF_TIME = 0.03  # the share of a table's advantages that is thought to change with time


class StateSums(Fields):
    """A state's sums. Behind these entries follow S and then Σ γᵗ t x, each with one number for each action."""

    visits: float
    weight: float  # Σ γ²ᵗ
    first: float  # Σ γ²ᵗ t
    second: float  # Σ γ²ᵗ t²


NAMED = StateSums.count


def table_state(policy: Policy) -> tuple[np.ndarray, int]:
    """(vectors, how many numbers the sums have)."""
    return np.zeros(1, dtype=policy.dtype), (policy.n_states or 0) * (StateSums.count + 2 * int(policy.sizes.outputs))


def sums_of_table(policy: Policy, counts: list[int], first: int) -> Sums:
    """All numbers of a state are sums over steps, and what it owes are S and Σ γᵗ t x.

    first   the place of the first state in the memory
    counts  the places of the plain counts
    """
    n, states = int(policy.sizes.outputs), policy.n_states or 0
    places = first + np.arange(states * (NAMED + 2 * n)).reshape(states, NAMED + 2 * n)
    memory = np.concatenate([counts, places.ravel()]).astype(np.int64)
    return Sums(memory=memory, owed_memory=places[:, NAMED:].ravel())


@helper(forceinline=True)
def _block(policy: PolicyView, memory: Memory, obs: Floats) -> Floats:
    """The sums of a state. They lie behind τ and x."""
    n = policy.sizes.outputs
    return shift(beyond(memory), 2 * n + int(obs[0]) * (NAMED + 2 * n))


@helper(forceinline=True)
def tilt_of_table(policy: PolicyView, sampler: SamplerView, obs: Floats, by: Floats) -> None:
    """by = η y: y is what this visit should repay, in the metric that counts S² /N + PRIOR · (Σ x (t − t̄))² / V."""
    memory, n = Memory(sampler.memory), policy.sizes.outputs
    block = StateSums(_block(policy, memory, obs))
    N, S = block.weight, beyond(block)
    late = shift(S, n)
    gain = min(GAIN_TABLE, float(n)) * memory.discount
    if N * gain <= 0.0:
        for i in range(n):
            by[i] = 0.0
        return
    mean = block.first / N
    V = max(block.second - block.first * mean, 0.0) + 1.0
    beyond_mean = memory.t - mean
    prior = PRIOR_OF_TIME * beyond_mean / V
    leverage = (1.0 + prior * beyond_mean * N) / block.visits
    for i in range(n):
        by[i] = gain * (S[i] / N + prior * (late[i] - mean * S[i])) / leverage


@helper(fastmath=FUSED, forceinline=True)
def learn_table(policy: PolicyView, memory: Memory, obs: Floats, x: Floats) -> None:
    """Add a step to the sums of its state."""
    n, t, discount = policy.sizes.outputs, memory.t, memory.discount
    block = StateSums(_block(policy, memory, obs))
    S = beyond(block)
    late = shift(S, n)
    weight = discount * discount
    block.visits += 1.0
    block.weight += weight
    block.first += weight * t
    block.second += weight * t * t
    for i in range(n):
        S[i] += discount * x[i]
        late[i] += discount * t * x[i]
