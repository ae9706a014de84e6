"""The runs behind a table of coverage: each is an evaluation as `evaluate` makes it, and is looked at in several ways.

A run is collected once, to the largest number of episodes. The smaller numbers are its beginnings, with the further resets
that belong to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenroll.collection.resets import STEPS_PER_RESET
from evenroll.collection.rollouts import Rollouts
from evenroll.domains.domain import Domain
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import NoEstimate
from evenroll.evaluation.interruption import seen
from evenroll.evaluation.looking import Look
from evenroll.evaluation.sources import DomainSource, EnvironmentSource
from evenroll.intervals.independent import Interval, NoInterval, student_t
from evenroll.intervals.stopping import Target, look_until
from evenroll.samplers import Sampler
from evenroll.study.trials import initial_data

STREAM, FEWEST_RESETS = 21, 2
COLUMNS = ("estimate", "low", "high", "iid_half", "fallback", "exact", "episodes", "variance", "steps")


@dataclass(frozen=True)
class Runs:
    """What many runs have in common.

    where      a domain, or a Gymnasium environment
    policy     a policy of the domain, or a `Model` of the environment
    looks      how each run is looked at
    sizes      after how many new episodes; with a target only the last counts, as the most to collect
    target     stop when the interval is this narrow; then each look has a run of its own
    initial    whether to start from `initial_episodes` episodes of data that is off-policy by `delta`
    resets     how many further resets; None leaves it to the rule of `evaluate`
    """

    where: Any
    policy: Any
    sampler: Sampler
    looks: tuple[Look, ...]
    sizes: tuple[int, ...]
    confidence: float
    target: Target | None = None
    initial: bool = False
    initial_episodes: int = 100
    delta: float = 0.1
    gamma: float | None = None
    horizon: int | None = None
    deterministic: bool = False
    resets: int | None = None
    seed: int = 0

    def source(self, i: int) -> DomainSource | EnvironmentSource:
        """The source of the i-th run. Its seed depends on `seed` and i alone."""
        place = (self.seed, STREAM, i)
        settings: dict[str, Any] = {
            "gamma": self.gamma, "seed": int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1),
            "horizon": self.horizon, "deterministic": self.deterministic, "resets": self.resets,
        }  # fmt: skip
        if not isinstance(self.where, Domain):
            return EnvironmentSource(self.where, self.policy, self.sampler, initial=None, **settings)
        start = None
        if self.initial:
            start = initial_data(self.where, self.policy, place, episodes=self.initial_episodes, delta=self.delta)
        return DomainSource(self.where, self.policy, self.sampler, initial=start, **settings)


def one_run(runs: Runs, i: int, tell: Callable[[int], None] | None = None) -> np.ndarray:
    """[sizes, looks, COLUMNS] of the i-th run. Where there is no interval, low and high are NaN."""
    with single_threaded_blas():
        if runs.target is not None:
            return np.array([[_stopped(runs, look, i, tell) for look in runs.looks]])
        source = runs.source(i)
        _collect(source, max(runs.sizes), tell)
        data = source.rollouts()
        return np.array([[*_looked_at(runs, source, beginning(data, n, runs.resets))] for n in runs.sizes])


def beginning(data: Rollouts, episodes: int, resets: int | None = None) -> Rollouts:
    """The first new episodes of a run, and as many of its further resets as a run of that size makes."""
    if episodes >= data.episodes - data.initial_episodes:
        return data
    part = data.prefix(int(data.ends[data.initial_episodes + episodes - 1]) - data.initial_steps)
    if part.resets is None:
        return part
    steps = part.steps - part.initial_steps
    count = max(steps // STEPS_PER_RESET, FEWEST_RESETS) if resets is None else len(part.resets)
    critic = None if part.critic is None else (part.critic[0], part.critic[1][:count])
    return replace(part, resets=part.resets[:count], critic=critic)


def _collect(source: DomainSource | EnvironmentSource, episodes: int, tell: Callable[[int], None] | None) -> None:
    before = source.episodes
    for done in source.collect(episodes, None, at_once=True):
        if tell is not None:
            tell(done - before)
            before = done


def _looked_at(runs: Runs, source: DomainSource | EnvironmentSource, data: Rollouts) -> list[tuple[float, ...]]:
    this = seen(source, data)
    return [_row(data, *this.look(look, runs.confidence), runs.confidence) for look in runs.looks]


def _stopped(runs: Runs, look: Look, i: int, tell: Callable[[int], None] | None) -> tuple[float, ...]:
    source = runs.source(i)

    def collect(episodes: int) -> Rollouts:
        _collect(source, episodes, tell)
        return source.rollouts()

    def see(data: Rollouts, level: float) -> tuple[float, Interval | NoInterval]:
        return look.at(data, source.policy, source.sampler, level, certain=source.certain)

    assert runs.target is not None
    return _row(*look_until(collect, see, runs.target, runs.confidence, max(runs.sizes)), runs.confidence)


def _row(data: Rollouts, value: float, interval: Interval | NoInterval, confidence: float) -> tuple[float, ...]:
    if data.episodes < 2:
        raise NoEstimate("a run needs at least 2 finished episodes")
    low, high = student_t(data.returns, confidence)
    of = (interval.low, interval.high) if isinstance(interval, Interval) else (math.nan, math.nan)
    kinds = (interval.fallback, interval.exact) if isinstance(interval, Interval) else (False, False)
    new = (data.episodes - data.initial_episodes, float(data.returns.var(ddof=1)), data.steps - data.initial_steps)
    return (value, *of, (high - low) / 2, *map(float, kinds), *new)
