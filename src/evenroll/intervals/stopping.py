"""Stopping as soon as the interval is narrow enough, without spoiling its coverage.

Each look k spends a part αₖ of α, Σ αₖ ≤ α, and uses an interval of level 1 − αₖ: by the union bound the interval at
which we stop fails with probability at most α, whenever that is. Looks are few, because the first one (a pilot) tells
how many episodes are needed: half-widths shrink as 1/√n. It gets α/10, the second 0.8 α, those after it the rest, halved
each time. So a run that stops at the second look, as most do, pays with 1.05× the half-width, not with a confidence
sequence's 1.5×.
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

PILOT = 200  # episodes before the first look; 100 leaves skewed returns under-covered (docs/experiments-intervals.md)
MARGIN = 1.3  # episodes planned over episodes predicted: a third look costs more
MOST_EPISODES = 100_000
GROWTH = 16.0  # no look foresees more than this many times the data it has


@dataclass(frozen=True)
class Target:
    """How narrow: a half-width, absolute or relative to the value."""

    width: float
    relative: bool = False

    @classmethod
    def parse(cls, text: float | str) -> Target:
        """0.5, "0.5" or "5%"."""
        relative = isinstance(text, str) and text.strip().endswith("%")
        try:
            width = float(text.strip().removesuffix("%")) if isinstance(text, str) else float(text)
        except ValueError:
            width = math.nan
        if not math.isfinite(width) or width <= 0.0:
            raise SpecError(f"half-width must be a number above 0 or a percentage, not {text!r}")
        return cls(width / 100.0 if relative else width, relative)

    def of(self, value: float) -> float:
        return self.width * abs(value) if self.relative else self.width


def spending(look: int) -> float:
    """Share of α that look 1, 2, … may spend: 0.1, 0.8, then 0.05, 0.025, …: never more than 1 in all."""
    return (0.1, 0.8)[look - 1] if look <= 2 else 0.1 * 0.5 ** (look - 2)


def collect_until(
    driver: Driver,
    env: Environment,
    look: Callable[[Rollouts, float], tuple[float, Interval | NoInterval]],
    target: Target,
    confidence: float,
    most: int,
) -> tuple[Rollouts, float, Interval | NoInterval]:
    """Collect and look until the interval is narrow enough or `most` episodes are there: (data, value, interval)."""
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
    """The same for whoever can `collect` until there are so many new episodes, and hand over all the data."""
    planned, k = min(PILOT, most), 1
    while True:
        data = collect(planned)
        level = 1.0 - (1.0 - confidence) * spending(k)
        value, found = look(data, level)
        if isinstance(found, NoInterval):
            return data, value, found
        found = replace(found, confidence=confidence)
        goal = target.of(value)
        if found.half_width <= goal:
            return data, value, found
        if planned >= most:
            note = f"{most} episodes are not enough for ± {goal:.3g}"
            return data, value, replace(found, note=note if found.note is None else f"{note}; {found.note}")
        k += 1
        wider = (_normal(1 - (1 - confidence) * spending(k)) / _normal(level)) ** 2
        needed = data.episodes * (found.half_width / goal) ** 2 * wider * MARGIN if goal > 0 else math.inf
        planned = int(min(most, max(1.1 * planned, min(needed, GROWTH * planned))) + 1)
        planned = min(planned, most)


def _normal(level: float) -> float:
    return NormalDist().inv_cdf(0.5 + level / 2)
