"""Stopping as soon as the interval is narrow enough, without spoiling its coverage.

Each look k spends a part αₖ of α, with Σ αₖ ≤ α, and uses an interval of level 1 − αₖ. By the union bound, the interval
at which we stop fails with probability at most α, whenever that is.

There are few looks. Half-widths shrink as 1/√n, so the first look (a pilot) tells how many episodes are needed. It spends
α/10, and the second look spends 0.8 α. Every look after that spends half of what is left. Most runs stop at the second
look: their half-width is 1.05 times that of a single look. With a confidence sequence it would be 1.5 times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.environment import Environment
from evenroll.errors import SpecError
from evenroll.intervals.independent import Interval, NoInterval

# A pilot of 100 episodes and a margin of 1.15 covered only 0.939 where returns are skewed (docs/experiments-intervals.md).
PILOT = 200  # episodes before the first look
MARGIN = 1.3  # episodes planned over episodes predicted, because a third look costs more than some spare episodes
MOST_EPISODES = 100_000  # where the user sets no limit; a choice
GROWTH = 16.0  # a look plans at most this many times the data it has, because its prediction is rough; a choice


@dataclass(frozen=True)
class Target:
    """How narrow the interval must be: a half-width, absolute or relative to the value."""

    width: float
    relative: bool = False

    @classmethod
    def parse(cls, text: float | str) -> Target:
        """The target that a user writes as 0.5, "0.5" or "5%"."""
        relative = isinstance(text, str) and text.strip().endswith("%")
        try:
            width = float(text.strip().removesuffix("%")) if isinstance(text, str) else float(text)
        except (TypeError, ValueError):
            width = math.nan
        if not math.isfinite(width) or width <= 0.0:
            raise SpecError(f"half-width must be a number above 0 or a percentage, not {text!r}")
        return cls(width / 100.0 if relative else width, relative)

    def of(self, value: float) -> float:
        return self.width * abs(value) if self.relative else self.width


def spending(look: int) -> float:
    """The share of α that look 1, 2, … may spend: 0.1, 0.8, then 0.05, 0.025 and so on. They add up to at most 1."""
    return (0.1, 0.8)[look - 1] if look <= 2 else 0.1 * 0.5 ** (look - 2)


def collect_until(
    driver: Driver,
    env: Environment,
    look: Callable[[Rollouts, float], tuple[float, Interval | NoInterval]],
    target: Target,
    confidence: float,
    most: int,
) -> tuple[Rollouts, float, Interval | NoInterval]:
    """Collect and look until the interval is narrow enough or `most` episodes are there. Return (data, value, interval)."""
    data: Rollouts | None = None

    def collect(episodes: int) -> Rollouts:
        nonlocal data
        new = driver.run(env, episodes=episodes)
        data = new if data is None else data.continued(new)
        return data

    return look_until(collect, look, target, confidence, most)


def look_until(
    collect: Callable[[int], Rollouts],
    look: Callable[[Rollouts, float], tuple[float, Interval | NoInterval]],
    target: Target,
    confidence: float,
    most: int,
) -> tuple[Rollouts, float, Interval | NoInterval]:
    """Do the same as `collect_until` with any function `collect(n)` that goes on to n new episodes and returns all data."""
    planned, k = min(PILOT, most), 1
    while True:
        data = collect(planned)
        level = 1.0 - (1.0 - confidence) * spending(k)
        value, interval = look(data, level)
        if isinstance(interval, NoInterval):
            return data, value, interval
        interval = replace(interval, confidence=confidence)
        goal = target.of(value)
        if interval.half_width <= goal:
            return data, value, interval
        if planned >= most:
            note = f"{most} episodes are not enough for ± {goal:.3g}"
            return data, value, replace(interval, note=note if interval.note is None else f"{note}; {interval.note}")
        k += 1
        wider = (_normal(1 - (1 - confidence) * spending(k)) / _normal(level)) ** 2
        needed = data.episodes * (interval.half_width / goal) ** 2 * wider * MARGIN if goal > 0 else math.inf
        planned = int(min(most, max(1.1 * planned, min(needed, GROWTH * planned))) + 1)
        planned = min(planned, most)


def _normal(level: float) -> float:
    return NormalDist().inv_cdf(0.5 + level / 2)
