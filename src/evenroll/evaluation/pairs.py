"""Policies side by side: each collects from the same starts, and any two of them are compared pair by pair.

Let G_i and H_i be the returns of two policies from start i, and C_i and E_i their action parts
(estimators/score_regression.py). Then

    G_i − H_i = d + β C_i − β′ E_i + [B(s₀ᵢ) − its mean] + ε_i,

where B is what the start has to do with the difference (estimators/start_part.py). The estimate is the mean difference
without these parts, and its interval is made as that of `score` (intervals/balanced.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.adapters.loading import load_domain
from evenroll.adapters.normalization import Normalization
from evenroll.collection.rollouts import Rollouts
from evenroll.domains.domain import Domain
from evenroll.errors import NoSuccess, SpecError
from evenroll.estimators.action_part import ActionPart
from evenroll.estimators.score_regression import ScoreRegression, action_parts, regress
from evenroll.estimators.start_part import Starts, starts_of
from evenroll.evaluation.looking import beyond_floats, other_rewards, runs_away
from evenroll.evaluation.sources import DomainSource, EnvironmentSource, Source
from evenroll.evaluation.workers import WorkersSource, refuse_domain
from evenroll.executors.kept import KeptPool
from evenroll.executors.pool import get_pool
from evenroll.intervals.balanced import balanced_interval
from evenroll.intervals.independent import Interval, NoInterval
from evenroll.intervals.outcomes import around, as_far_as_seen, other_outcomes, rare_differences
from evenroll.policies import Policy
from evenroll.samplers.table import SamplerLike

QUANTITIES = ("return", "success")
NO_SUCCESS = (
    "no episode says whether it succeeded: the environment must give info['is_success'] (or info['success']) at the end of "
    "each, or compare returns (quantity='return', --quantity return)"
)


def sources_for(
    env: Any, policies: Sequence[Any], sampler: SamplerLike, initial: Sequence[Any], *, warned: tuple[str, ...] = (),
    workers: int | None = None, executor: str | None = None, spool: str | Path | None = None,
    normalization: Normalization | None = None, **settings: Any,
) -> list[Source]:  # fmt: skip
    """A source of episodes for each policy. All of them have the same seed, and so meet the same starts.

    A vector environment is reset as a whole for every round of episodes, because only then are its starts known.

    workers, executor, spool  as `evaluate` takes them. All policies share the workers, and each has a directory of its own
                              in the spool, by its number.
    normalization             what the workers' environments do to observations
    """
    if workers is not None or executor is not None or spool is not None:
        settings |= {"warned": warned, "normalization": normalization}
        return _on_workers(env, policies, sampler, initial, workers, executor, spool, settings)
    loaded = load_domain(env) if isinstance(env, str) else env
    found: list[Source] = []
    for policy, data in zip(policies, initial, strict=True):
        if isinstance(loaded, Domain):
            found.append(DomainSource(loaded, policy, sampler, initial=data, **settings))
        else:
            found.append(EnvironmentSource(env, policy, sampler, initial=data, in_rounds=True, warned=warned, **settings))
    return found


def _on_workers(
    env: Any, policies: Sequence[Any], sampler: SamplerLike, initial: Sequence[Any], workers: int | None,
    executor: str | None, spool: str | Path | None, settings: dict[str, Any],
) -> list[Source]:  # fmt: skip
    refuse_domain(env)
    pool = KeptPool(get_pool("threads" if executor is None else executor, workers))
    found: list[Source] = []
    try:
        for number, (policy, data) in enumerate(zip(policies, initial, strict=True), 1):
            place = None if spool is None else Path(spool) / str(number)
            found.append(WorkersSource(env, policy, sampler, executor=pool, spool=place, initial=data, **settings))
    except BaseException:
        for source in found:
            source.close()
        raise
    return found


def whole_groups(source: Source) -> Callable[[int], int]:
    """How many episodes there are when n are wanted and none is left half collected.

    A vector environment brings one of each lane at a time, workers bring a round at a time.
    """
    if isinstance(source, WorkersSource):
        return source.whole_rounds
    recorder = getattr(source, "recorder", None)
    lanes = 1 if recorder is None else int(recorder.lanes)
    return lambda n: -(-n // lanes) * lanes


def first_episodes(data: Rollouts, n: int) -> Rollouts:
    """The first n episodes, all of them as if they had just been collected."""
    return replace(data, initial_episodes=0, initial_steps=0).prefix(int(data.ends[n - 1]))


def of_quantity(data: Rollouts, quantity: str) -> Rollouts:
    """The data, with the quantity that is compared in the place of the returns."""
    if quantity == "return":
        return data
    if quantity not in QUANTITIES:
        raise SpecError(f"unknown quantity {quantity!r}; known: {', '.join(QUANTITIES)}")
    if data.success is None:
        raise NoSuccess(NO_SUCCESS)
    rewards = other_rewards(data)["success"]
    return replace(data, gamma=1.0, rewards=rewards, returns=data.success.astype(np.float64))


@dataclass
class Side:
    """What one policy has collected, with what is learnt from it once for all comparisons."""

    data: Rollouts
    source: Source
    quantity: str
    _parts: list[ActionPart] | None = field(default=None, repr=False)
    _starts: Starts | None = field(default=None, repr=False)

    @property
    def policy(self) -> Policy | None:
        return self.source.policy

    @property
    def values(self) -> np.ndarray:
        return self.data.returns

    def parts(self) -> list[ActionPart]:
        if self._parts is None:
            self._parts = [] if self.policy is None else action_parts(self.data, self.policy)
        return self._parts

    def starts(self) -> Starts | None:
        if self._starts is None:
            self._starts = starts_of(self.data)
        return self._starts

    def away(self) -> str | None:
        """What the guard says if the sampler left its actions farther from balance than chance would have."""
        return runs_away(self.data, self.policy, self.source.sampler)


def side_of(source: Source, quantity: str, n: int | None = None) -> Side:
    """The side of a source, of its first n episodes if n is given."""
    data = source.rollouts(unfinished=False)
    return Side(of_quantity(data if n is None else first_episodes(data, n), quantity), source, quantity)


@dataclass(frozen=True)
class Compared:
    """A difference with its interval at some level, or the reason why it has none; and the error that it is made from."""

    value: float
    interval: Interval | NoInterval
    error: float


@dataclass(frozen=True)
class Fitted:
    """The differences of n pairs, with their regression; None where all of them are equal. It has intervals of any level."""

    gaps: np.ndarray
    fit: ScoreRegression | None

    def at(self, confidence: float) -> Compared:
        """The difference with its interval."""
        gaps, fit = self.gaps, self.fit
        if fit is None:
            rare = other_outcomes(len(gaps), confidence)
            why = (
                f"all {len(gaps)} differences were equal; one that was not seen may have a probability of up to {rare:.2g}, "
                "and how large it would be is not known"
            )
            return Compared(float(gaps[0]), NoInterval(why), 0.0)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is told in words
            made = balanced_interval(fit, gaps, fit.value, confidence, estimator="score")
        unfit = beyond_floats(made, gaps)
        if unfit is not None:
            return Compared(fit.value, NoInterval(unfit), fit.error)
        made = as_far_as_seen(made, gaps, confidence) if made.exact else made
        return Compared(fit.value, around(made, rare_differences(gaps, confidence)), fit.error)


def fitted(first: Side, second: Side) -> Fitted:
    """The pairs of two policies, with the luck of their actions and starts taken out."""
    gaps = first.values - second.values
    if float(np.ptp(gaps)) == 0.0:
        return Fitted(gaps, None)
    with np.errstate(over="ignore", invalid="ignore"):
        return Fitted(gaps, regress(gaps, first.parts() + [part.negative() for part in second.parts()], first.starts()))


def compared(first: Side, second: Side, confidence: float) -> Compared:
    """How much more the first is worth than the second, from as many pairs as both have."""
    return fitted(first, second).at(confidence)
