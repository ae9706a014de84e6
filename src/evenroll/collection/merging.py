"""One balance for blocks of episodes that are collected at the same time, in whatever places.

What `os`, `ros` and `auto` have learnt are sums over steps (`samplers.sums`). So blocks can start from one snapshot of the
balance and hand back what each has added. The sums are added up in the order of the blocks, so that the result does not
depend on who was faster.

A round of one block is no different from going on alone: then the balance is taken over as the block has left it, bit for
bit.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numba import void

from evenroll.collection.balance import Balance
from evenroll.collection.step import sampling_types
from evenroll.engine.pieces import compiled
from evenroll.errors import SpecError
from evenroll.policies import Policy
from evenroll.policies.interface import policy_of
from evenroll.samplers import Sampler
from evenroll.samplers.interface import SamplerCode, ending, sampler_of
from evenroll.samplers.sums import Sums

State = dict[str, np.ndarray]  # `vectors` and `memory` of a balance between two episodes
Added = dict[str, np.ndarray]  # what a block has added to them, or left of them; and its clock and tally
COUNTED = ("steps", "episodes")
SUMMED = ("watched", "log_ratio", "log_ratio_squared")


def sums_of(sampler: Sampler, policy: Policy) -> Sums:
    """The sampler's sums, or an error that says what to use instead."""
    found = sampler.sums(policy)
    if found is None:
        raise SpecError(
            f"what {sampler} has learnt in several places cannot be added up, so it cannot run on several workers: use "
            "auto, ros:alpha=… or os"
        )
    return found


def snapshot(balance: Balance, blocks: int = 1, steps: float = 0.0) -> State:
    """What each of `blocks` blocks starts from, which will take about this many steps in all."""
    state = {"vectors": balance.vectors.copy(), "memory": balance.memory.copy()}
    if blocks > 1:
        sums, sampler = sums_of(balance.sampler, balance.policy), balance.sampler
        told = sampler.told(balance.policy, balance.settings, balance.memory, blocks, steps)
        state["vectors"][sums.owed_vectors] *= state["vectors"].dtype.type(told)
        state["memory"][sums.owed_memory] *= told
    return state


def take_over(balance: Balance, state: State) -> None:
    """Go on from this state. What was counted before stays with whoever counted it."""
    balance.vectors[...], balance.memory[...] = state["vectors"], state["memory"]
    _forget(balance)


def _forget(balance: Balance) -> None:
    for name in COUNTED:
        setattr(balance.clock, name, 0)
    for name in (*SUMMED, "largest"):
        setattr(balance.tally, name, 0.0)


def added(balance: Balance, before: State, whole: bool) -> Added:
    """What the balance has learnt since it took over the state `before`. As a `whole`, it is all that it is now."""
    counts = np.array([getattr(balance.clock, name) for name in COUNTED], dtype=np.int64)
    tally = np.array([getattr(balance.tally, name) for name in (*SUMMED, "largest")], dtype=np.float64)
    if whole:
        return {"vectors": balance.vectors.copy(), "memory": balance.memory.copy(), "clock": counts, "tally": tally}
    sums = sums_of(balance.sampler, balance.policy)
    return {
        "vectors": balance.vectors[sums.vectors].astype(np.float64) - before["vectors"][sums.vectors],
        "memory": balance.memory[sums.memory] - before["memory"][sums.memory],
        "clock": counts,
        "tally": tally,
    }


def merge(balance: Balance, blocks: Sequence[Added]) -> None:
    """Add what the blocks of one round have added, in their order, to the balance that they started from."""
    if len(blocks) == 1:
        balance.vectors[...], balance.memory[...] = blocks[0]["vectors"], blocks[0]["memory"]
    else:
        sums = sums_of(balance.sampler, balance.policy)
        vectors, memory = balance.vectors[sums.vectors].astype(np.float64), balance.memory[sums.memory].copy()
        for block in blocks:
            vectors += block["vectors"]
            memory += block["memory"]
        balance.vectors[sums.vectors], balance.memory[sums.memory] = vectors, memory
        if sums.settle is not None:
            (code, *others), number = balance.arrays[1], balance.number
            code = code.copy()
            code[SamplerCode.names.index("end_episode")] = sums.settle.address(number)
            _settle(number)(balance.arrays[0], (code, *others))


def count(balance: Balance, blocks: Iterable[Added]) -> None:
    """Let clock and tally be what these blocks have counted, in their order."""
    _forget(balance)
    clock, tally = balance.clock, balance.tally
    for block in blocks:
        for name, number in zip(COUNTED, block["clock"], strict=True):
            setattr(clock, name, getattr(clock, name) + number)
        for name, value in zip(SUMMED, block["tally"], strict=False):
            setattr(tally, name, getattr(tally, name) + value)
        tally.largest = max(float(tally.largest), float(block["tally"][-1]))


def _settle_kernel(policy_arrays: Any, sampler_arrays: Any) -> None:
    policy, sampler = policy_of(policy_arrays), sampler_of(sampler_arrays)
    ending(policy, sampler)(policy, sampler, 0.0, 0.0)


@functools.cache
def _settle(number: Any) -> Any:
    return compiled(_settle_kernel, void(*sampling_types(number)))
