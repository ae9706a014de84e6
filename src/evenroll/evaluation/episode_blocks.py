"""Blocks of episodes, which workers collect. A block is a function of its recipe, its numbers and a snapshot of the balance.

Starts and random streams are numbered by episode. So a block's data does not depend on who collects it, nor on what is
collected beside it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.collection.environments import collect
from evenroll.collection.merging import Added, State, added, take_over
from evenroll.collection.recorder import Recorder
from evenroll.engine.random import stream
from evenroll.evaluation.recipes import Recipe, made_here

ACTIONS = 6  # the branch of the seed tree in which every episode has a stream for its actions
FEWEST = 2  # episodes of a round while there are few; docs/clusters.md has the experiment
SHARE = 1 / 16  # the most that a later round adds to the episodes so far; the same experiment
MOST_BLOCKS = 32  # blocks of a round: as many workers are kept busy; a choice
LARGE = 1 / 4  # the same share where nothing is balanced: rounds only bundle episodes then; a choice
COLUMNS = (
    "returns", "ends", "terminated", "log_weights", "observations", "actions", "rewards", "log_e", "log_b", "features",
    "outputs", "success", "last",
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """Episodes first, first + 1, …, first + count − 1. `alone` says that it is the only block of its round."""

    first: int
    count: int
    alone: bool

    @property
    def end(self) -> int:
        return self.first + self.count


def round_after(episodes: int, balanced: bool = True) -> list[Block]:
    """The blocks of the round that begins after this many episodes. It does not depend on the number of workers.

    A round adds at most a share of the episodes so far, because its blocks do not see each other: what the luck of their
    actions adds up to is made up for in the next round only. The number of its episodes is a power of two, so that it
    divides well among workers. Where nothing is balanced, a round is large from the beginning.
    """
    size, share = (FEWEST, SHARE) if balanced else (MOST_BLOCKS, LARGE)
    while 2 * size <= share * episodes:
        size *= 2
    blocks = min(size, MOST_BLOCKS)
    each = size // blocks
    return [Block(first, each, blocks == 1) for first in range(episodes, episodes + size, each)]


@dataclass(frozen=True, eq=False)
class Task:
    """A block to be collected. `key` is the recipe's identity where it is asked for; `state` is None without a sampler."""

    recipe: Recipe
    key: str
    block: Block
    state: State | None


@dataclass(frozen=True, eq=False)
class Collected:
    """What a block has brought.

    columns  its data, by the names of COLUMNS; `success` has nan where the environment did not say, and `last` is what each
             episode ended with, where that is known
    added    what it has added to the balance; empty without a sampler
    seconds  how long it took, and `reset` the fastest of its resets; both are only there where it was collected just now
    """

    columns: dict[str, np.ndarray]
    added: Added
    seconds: float = 0.0
    reset: float = float("inf")

    @property
    def steps(self) -> int:
        return int(self.columns["ends"][-1])


class BlockRecorder(Recorder):
    """A recorder whose episodes and starts are numbered from that of its block on."""

    def __init__(self, recipe: Recipe, model: Any, first: int) -> None:
        super().__init__(
            model, recipe.sampler, gamma=recipe.gamma, seed=recipe.seed, horizon=recipe.horizon,
            keep_observations=recipe.keep,
        )  # fmt: skip
        self._begun, self._first_start = first, recipe.starts + first

    @property
    def starts(self) -> int:
        return self._first_start + len(self._ended)


def collect_block(task: Task) -> Collected:
    """Collect a block, in a worker."""
    recipe, block = task.recipe, task.block
    made = made_here(recipe, task.key)
    began = time.perf_counter()
    recorder = BlockRecorder(recipe, made.model, block.first)
    balance = None if recorder.stepper is None else recorder.stepper.balance
    if balance is not None and task.state is not None:
        take_over(balance, task.state)
    for number in range(block.count):
        if balance is not None:
            balance.stream[...] = stream(*recipe.place, ACTIONS, block.first + number)
        for _ in collect(recorder, made.env, episodes=number + 1):
            pass
    gained = {} if balance is None or task.state is None else added(balance, task.state, block.alone)
    return Collected(_columns(recorder), gained, time.perf_counter() - began, recorder.fastest_reset)


def _columns(recorder: Recorder) -> dict[str, np.ndarray]:
    data = recorder.rollouts(unfinished=False)
    columns = {name: getattr(data, name, None) for name in COLUMNS}
    columns["success"] = np.array([success for _, _, success in recorder._ended])
    last = recorder.last_observations()
    if len(last) == data.episodes:
        columns["last"] = np.stack([np.ravel(last[i]) for i in range(data.episodes)])
    return {name: np.ascontiguousarray(column) for name, column in columns.items() if column is not None}
