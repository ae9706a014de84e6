"""Which of two policies is better, and by how much: both meet the same starts, so that luck with those cancels.

Let G_i and H_i be the returns of the two policies from start i, and C_i and E_i their action parts
(estimators/score_regression.py). Then

    G_i − H_i = d + β·(C_i, E_i) + ε_i

and the error of the mean difference is b + ε̄, where b = β·(mean C, mean E). The interval is made as that of mc on balanced
data (intervals/balanced.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import SpecError
from evenroll.estimators import get_estimator
from evenroll.estimators.score_regression import action_part, regress
from evenroll.evaluation.evaluate import Budget, Progress, evaluate_source
from evenroll.evaluation.looking import Look
from evenroll.evaluation.result import Evaluation
from evenroll.evaluation.sources import EnvironmentSource, Source
from evenroll.intervals.balanced import balanced_interval
from evenroll.intervals.independent import Interval, NoInterval, student_t
from evenroll.intervals.outcomes import around, other_outcomes, rare_differences
from evenroll.samplers.table import SamplerLike
from evenroll.text.numbers import with_interval


@dataclass(frozen=True)
class Difference:
    """How much more the first policy is worth than the second.

    value       the estimate of the difference: the first policy's value minus the second's
    low, high   the interval, which holds the true difference with probability `confidence`; None if there is none
    confidence  the confidence of the interval
    why         the reason why there is no interval; None if there is one
    note        what to know about the interval, or None
    alone       the half-width if each policy had met its own starts, for comparison; None if one has no interval
    first       the evaluation of the first policy
    second      the evaluation of the second policy
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    why: str | None
    note: str | None
    alone: float | None
    first: Evaluation
    second: Evaluation

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "first": self.first.to_json(), "second": self.second.to_json()}

    def __str__(self) -> str:
        number = with_interval(self.value, self.low, self.high, "+.5g", f"{100 * self.confidence:g} %")
        return f"{number}{' (no interval)' if self.low is None else ''}, {self.first.episodes} episodes each"

    def in_words(self) -> str:
        both = dict.fromkeys((*self.first.warnings, *self.second.warnings))
        return self._found() + "".join(f" Warning: {text}." for text in both)

    def _found(self) -> str:
        values = f"{self.first.value:.5g} against {self.second.value:.5g}"
        if self.low is None or self.high is None:
            return f"Which is better cannot be told: {values}; no interval: {self.why}."
        if self.low > 0.0:
            verdict = "The first policy is better"
        elif self.high < 0.0:
            verdict = "The second policy is better"
        else:
            verdict = "Which is better cannot be told yet"
        note = "" if self.note is None else f" Note: {self.note}."
        return f"{verdict}: {values}, a difference of {self.low:+.5g} … {self.high:+.5g}.{note}"


def difference(
    env: Any,
    first: Any,
    second: Any,
    *,
    sampler: SamplerLike = "auto",
    episodes: int = 100,
    gamma: float = 1.0,
    seed: int = 0,
    confidence: float = 0.95,
    horizon: int | None = None,
    deterministic: bool = False,
    progress: Callable[[Progress], None] | None = None,
    warned: tuple[str, ...] = (),
) -> Difference:
    """Evaluate two policies on the same starts of one environment, `episodes` each, and compare them.

    A vector environment is reset as a whole for every round of episodes, one of each lane, because only then are its
    starts known. Lanes that have ended wait for the longest episode of their round.

    warned  what is known beforehand and belongs into the results' warnings
    """
    if episodes < 4:
        raise SpecError(f"a difference needs at least 4 episodes, not {episodes}")
    look, budget = Look(get_estimator("mc")), Budget.of(episodes, None, None)
    settings: dict[str, Any] = {"gamma": gamma, "seed": seed, "horizon": horizon, "initial": None}
    sources = [
        EnvironmentSource(env, policy, sampler, deterministic=deterministic, in_rounds=True, warned=warned, **settings)
        for policy in (first, second)
    ]
    try:
        results = [evaluate_source(source, look, budget, confidence, progress) for source in sources]
        with single_threaded_blas():
            interval = _interval(sources[0], sources[1], confidence)
    finally:
        for source in sources:
            source.close()
    value = results[0].value - results[1].value
    halves = [result.half_width for result in results]
    alone = None if halves[0] is None or halves[1] is None else math.hypot(halves[0], halves[1])
    if isinstance(interval, NoInterval):
        return Difference(value, None, None, confidence, interval.why, None, alone, results[0], results[1])
    return Difference(value, interval.low, interval.high, confidence, None, interval.note, alone, results[0], results[1])


def _interval(first: Source, second: Source, confidence: float) -> Interval | NoInterval:
    gaps = first.rollouts().returns - second.rollouts().returns
    n = len(gaps)
    if float(np.ptp(gaps)) == 0.0:
        rare = other_outcomes(n, confidence)
        return NoInterval(
            f"all {n} differences were equal; one that was not seen may have a probability of up to {rare:.2g}, and how "
            "large it would be is not known"
        )
    if all(source.policy is None or source.sampler.independent for source in (first, second)):
        made = Interval(*student_t(gaps, confidence), confidence, "t")
    else:
        engines = [(source.rollouts(), source.policy) for source in (first, second) if source.policy is not None]
        fit = regress(gaps, [action_part(data, policy) for data, policy in engines])
        made = balanced_interval(fit, gaps, float(gaps.mean()), confidence)
    return around(made, rare_differences(gaps, confidence))
