"""Blocks of trials. A block is a pure function of its identity, so its result can be kept under that identity.

A result that is kept is never computed again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np

from evenroll.adapters.loading import as_domain
from evenroll.errors import SpecError
from evenroll.estimators.table import get_estimator
from evenroll.policies import Policy, TabularSoftmax, epsilon_greedy, policy_digest
from evenroll.samplers.table import get_sampler, specification
from evenroll.study.method import MethodSpec
from evenroll.study.sources import digest_of
from evenroll.study.trials import GRADIENT, KL, Trials, run_trials
from evenroll.study.true_value import truth

FORMAT = 1  # the version of the identity and of the file
STEPS_PER_BLOCK = 2_000_000  # about: this is what a worker may lose when it is killed
SIZES = (50, 25, 10, 5)  # trials per block; the largest size within STEPS_PER_BLOCK is taken
FURTHER_SIZES = (2000, 1000, 500, 250, 100, *SIZES)  # the sizes of blocks that are added to those of a figure
NETWORKS = "fqe-net"  # estimators whose trials take seconds, however few steps they have


@dataclass(frozen=True)
class Work:
    """Many trials of one way to collect, as strings and numbers only. So it hashes, prints, and travels between machines.

    collect   how data is collected: [init+]SAMPLER[:key=value,…]. What is left out takes the domain's value in the paper.
    measures  the names of estimators; SAMPLING_ERRORS may follow them
    budgets   the checkpoints, in mean episode lengths. A budget b means ⌊T̄·b⌋ new steps. With initial data, 0 comes first.
    epsilon   if given, the policy is not the domain's but greedy, except for a share ε of uniformly random actions
    """

    domain: str
    collect: str
    measures: tuple[str, ...]
    budgets: tuple[float, ...]
    epsilon: float | None = None
    seed: int = 0

    def __str__(self) -> str:
        greedy = "" if self.epsilon is None else f", ε = {self.epsilon:g}"
        return f"{self.domain}{greedy}: {self.collect}/{'+'.join(self.measures)}"

    def blocks(self, trials: int) -> list[Block]:
        steps = resolve(self).checkpoints[-1]
        size = next((s for s in SIZES if s * steps <= STEPS_PER_BLOCK), SIZES[-1])
        return [Block(self, first, min(size, trials - first)) for first in range(0, trials, size)]

    def further_blocks(self, there: int, trials: int) -> list[Block]:
        """The blocks of trials there, there + 1, …, trials − 1. They may be larger than the first, as there may be many."""
        steps = resolve(self).checkpoints[-1]
        sizes = SIZES[-1:] if any(name.startswith(NETWORKS) for name in self.measures) else FURTHER_SIZES
        size = next((s for s in sizes if s * steps <= STEPS_PER_BLOCK), sizes[-1])
        return [Block(self, first, min(size, trials - first)) for first in range(there, trials, size)]


SAMPLING_ERRORS = (KL, GRADIENT)


@dataclass(frozen=True)
class Block:
    """Trials first, first + 1, …, first + count − 1 of a work."""

    work: Work
    first: int
    count: int

    def identity(self) -> dict[str, Any]:
        """Everything that determines the block's numbers, and nothing that does not."""
        trials = resolve(self.work)
        place = (self.work.seed, self.first)
        environment, known = trials.domain.trial_environment(place), trials.truth
        if trials.domain.redrawn:
            known = trials.domain.known_truth(trials.policy, place) or known
        return {
            "format": FORMAT,
            "sources": _sources(self.work),
            "numpy": np.__version__,
            "numba": numba.__version__,
            "domain": str(trials.domain),
            "environment": hashlib.sha256(np.ascontiguousarray(environment.params, dtype="<f8").tobytes()).hexdigest(),
            "gamma": trials.domain.gamma,
            "horizon": trials.domain.horizon,
            "policy": policy_digest(trials.policy),
            "value": known.value,
            "method": MethodSpec(specification(trials.sampler), initial=trials.initial).collect,
            "initial": [trials.initial_episodes, trials.delta] if trials.initial else None,
            "measures": list(trials.columns),
            "checkpoints": list(trials.checkpoints),
            "seed": self.work.seed,
            "first": self.first,
            "trials": self.count,
        }

    @functools.cached_property
    def key(self) -> str:
        return identity_key(self.identity())

    @property
    def data(self) -> Hashable:
        """What determines the data that is measured: blocks for which this is equal are collected alike."""
        return replace(self.work, measures=()), self.first, self.count, resolve(self.work).watches_every_step


def identity_key(identity: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True, allow_nan=False).encode()).hexdigest()


@dataclass(frozen=True)
class BlockData:
    """What a block's trials measured.

    values   [trials, columns, checkpoints]; nan where there is no value
    runaway  [trials]: whether the behaviour ran away from the policy
    """

    columns: tuple[str, ...]
    checkpoints: tuple[int, ...]
    values: np.ndarray
    runaway: np.ndarray


def compute(block: Block) -> BlockData:
    """The block's numbers."""
    return compute_together([block])[0]


def compute_together(blocks: Sequence[Block]) -> tuple[BlockData, ...]:
    """The numbers of blocks that differ in their measures only, so that their data is collected once.

    The numbers do not depend on where this runs, nor on what runs beside it, nor on what else is measured.
    """
    first = blocks[0]
    if any(block.data != first.data for block in blocks):
        raise ValueError("only blocks whose data is collected alike are computed together")
    measures = tuple(dict.fromkeys(m for block in blocks for m in block.work.measures if m not in SAMPLING_ERRORS))
    if any(block.work.measures[-2:] == SAMPLING_ERRORS for block in blocks):
        measures += SAMPLING_ERRORS
    trials = resolve(replace(first.work, measures=measures))
    seeds = [(first.work.seed, t) for t in range(first.first, first.first + first.count)]
    values, runaway = run_trials(trials, seeds)
    columns = [resolve(block.work).columns for block in blocks]
    places = [[trials.columns.index(name) for name in names] for names in columns]
    return tuple(
        BlockData(names, trials.checkpoints, np.ascontiguousarray(values[:, place]), runaway)
        for names, place in zip(columns, places, strict=True)
    )


@functools.cache
def resolve(work: Work) -> Trials:
    """The objects that a work names."""
    domain = as_domain(work.domain)
    policy = _policy(work.domain, work.epsilon)
    written = MethodSpec.parse(work.collect)
    initial = written.initial
    sampler = get_sampler(written.sampler, domain.paper, initial)
    sampler.check(policy)
    errors = work.measures[-2:] == SAMPLING_ERRORS
    estimators = tuple(get_estimator(name) for name in (work.measures[:-2] if errors else work.measures))
    known = truth(domain, policy)
    points = {math.floor(known.mean_length * b) for b in work.budgets} - {0} | ({0} if initial else set())
    if not points - {0}:
        raise SpecError(f"{work}: a budget of {max(work.budgets):g} mean episodes is less than one step")
    return Trials(domain, policy, known, sampler, estimators, tuple(sorted(points)), initial, errors)


@functools.cache
def _policy(spec: str, epsilon: float | None) -> Policy:
    domain = as_domain(spec)
    policy = domain.policy()
    if epsilon is None:
        return policy
    if not isinstance(policy, TabularSoftmax):
        raise SpecError(f"{domain}: ε-greedy policies are for tables")
    favourites = policy.table.argmax(axis=1)
    best = favourites if domain.greedy is None else domain.greedy(domain.environment(None))
    return epsilon_greedy(best, policy.table.shape[1], epsilon)


@functools.cache
def _sources(work: Work) -> str:
    trials = resolve(work)
    env = trials.domain.environment(None)
    functions: list[Callable[..., Any]] = [e.function for e in trials.estimators]
    pieces = [env.reset.function, env.step.function]
    return digest_of("evenroll.study.trials", type(trials.sampler), type(trials.policy), *functions, *pieces)
