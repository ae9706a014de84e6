"""Which of two policies is better, and by how much: both meet the same starts, so that luck with those cancels.

With G_i, H_i the returns of the two from start i, and C_i, E_i their action parts (scores.py),

    G_i − H_i = d + β·(C_i, E_i) + ε_i

mc's error is b + ε̄, b = β·(mean C, mean E): the half-width is that of intervals.py, with one more degree of freedom spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenroll.collector import Collector
from evenroll.errors import SpecError
from evenroll.evaluation import Evaluation, Progress, evaluate_with, two_digits
from evenroll.intervals import FEWEST, centred_half_width, student_t
from evenroll.parallel import single_threaded_blas
from evenroll.samplers import Sampler
from evenroll.scores import action_part


@dataclass(frozen=True)
class Difference:
    """value: that of the first policy minus that of the second; low ≤ true difference ≤ high with probability `confidence`.

    alone  half-width if each had met starts of its own: what sharing them saves shows beside it
    """

    value: float
    low: float
    high: float
    confidence: float
    alone: float | None
    first: Evaluation
    second: Evaluation

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "first": self.first.to_json(), "second": self.second.to_json()}

    def __str__(self) -> str:
        level = f"{100 * self.confidence:g} %"
        return f"{self.value:+.5g} ± {two_digits(self.half_width)} ({level}), {self.first.episodes} episodes each"

    def in_words(self) -> str:
        if self.low > 0.0:
            verdict = "The first policy is better"
        elif self.high < 0.0:
            verdict = "The second policy is better"
        else:
            verdict = "Which is better cannot be told yet"
        values = f"{self.first.value:.5g} against {self.second.value:.5g}"
        return f"{verdict}: {values}, a difference of {self.low:+.5g} … {self.high:+.5g}."


def difference(
    env: Any,
    first: Any,
    second: Any,
    *,
    sampler: str | Sampler = "auto",
    episodes: int = 100,
    gamma: float = 1.0,
    seed: int = 0,
    confidence: float = 0.95,
    horizon: int | None = None,
    deterministic: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Difference:
    """Evaluate two policies on the same starts of one environment, `episodes` each, and compare them."""
    if getattr(env, "num_envs", None) is not None:
        raise SpecError("starts are shared in one environment, not in a vector of them")
    if episodes < 3:
        raise SpecError(f"a difference needs at least 3 episodes, not {episodes}")
    made: list[Collector] = []
    results = [
        evaluate_with(
            env, policy, sampler=sampler, estimator="mc", episodes=episodes, steps=None, gamma=gamma, seed=seed,
            confidence=confidence, half_width=None, interval="auto", force_interval=False, bounds=None, horizon=horizon,
            initial=None, deterministic=deterministic, progress=progress, keep=made.append,
        )
        for policy in (first, second)
    ]  # fmt: skip
    with single_threaded_blas():
        half = _half_width(made[0], made[1], confidence)
    value = results[0].value - results[1].value
    halves = [result.half_width for result in results]
    alone = None if halves[0] is None or halves[1] is None else math.hypot(halves[0], halves[1])
    return Difference(value, value - half, value + half, confidence, alone, results[0], results[1])


def _half_width(first: Collector, second: Collector, confidence: float) -> float:
    gaps = first.rollouts().returns - second.rollouts().returns
    n = len(gaps)
    low, high = student_t(gaps, confidence)
    independent = all(c.model.engine is None or c.sampler.independent for c in (first, second))
    if independent or n < FEWEST:  # few: as wide as for independent pairs
        return (high - low) / 2
    spread, mean = [], []
    for collector in (first, second):
        if collector.model.engine is not None:
            part = action_part(collector.rollouts(), collector.model.engine)
            spread.append(part.apart - part.apart.mean())
            mean.append(part.mean)
    X, m = np.stack(spread, axis=1), np.array(mean)
    power = X.T @ X
    scale = float(np.trace(power))
    inverse = np.linalg.pinv(power, hermitian=True) if scale > 0.0 else np.zeros_like(power)
    slope = inverse @ (X.T @ gaps)
    residual = gaps - gaps.mean() - X @ slope
    freedom = n - 1 - len(m)
    error = math.sqrt(float(residual @ residual) / freedom * (1.0 / n + float(m @ inverse @ m)))
    return centred_half_width(float(slope @ m), error, freedom, confidence)
