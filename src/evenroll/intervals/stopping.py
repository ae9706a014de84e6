"""Stopping as soon as the interval is narrow enough, without spoiling its coverage.

Looking is of two kinds. A look that only *plans* asks how wide the interval is, and so how many episodes will be needed. It
cannot stop the run, so it spends nothing of α. Such looks come after 10, 16, 25, … episodes, until the prediction is at most
1.5 times what is there. Then come looks that may *stop* the run, the first where the prediction says, with a margin. Each of
them spends a part αₖ of α, with Σ αₖ ≤ α, and has an interval of level 1 − αₖ. By the union bound, the interval at which we
stop fails with probability at most α, whenever that is. The first of them spends 0.9 α, and most runs stop there.

Two things remain that the bound does not see. A run stops early if its spread happens to come out small. And where returns
are skewed, mean and spread change together, and few episodes may not show how skewed they are: the coverage of
mean ± z·s/√n is off by −2φ(z)·z·(z⁴ + 2z² − 3)/18 · γ²/n, where γ is the skewness (Hall 1992, §2), which is 0.25 γ²/n at
95 %. So at least 15 % of the episodes are new at the first look that may stop, and the half-width is multiplied by
1 + (FEW + SKEWED·γ²)/n. With 500 episodes that is next to nothing, with 20 it is 1.4 and more. The four numbers come from
simulations of stopped t intervals for normal, exponential and gridworld's returns; docs/experiments-intervals.md has them,
and what the whole of it then covered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import SpecError
from evenroll.intervals.independent import Interval, NoInterval

FIRST = 10  # episodes before the first look that plans
SOON = 1.5  # a look that plans is followed by one at so many times its episodes, or by one that may stop
MARGIN = 1.2  # episodes planned over episodes predicted, because another look costs more than some spare episodes
FRESH = 1.15  # at the first look that may stop there are at least so many times the episodes of the look before
FEW, SKEWED = 8.0, 3.0  # how much few episodes, and skewness, widen the interval at which we stop
PATIENCE = 200  # without an interval after so many episodes (all returns are equal) more are not waited for
MOST_EPISODES = 100_000  # where the user sets no limit; a choice
MOST_PLANNED = 1e12  # no prediction goes beyond
GROWTH = 4.0  # a look that may stop plans at most this many times the data it has; a choice


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
    """The share of α that the looks 1, 2, … that may stop spend: 0.9, 0.05, 0.025 and so on. They add up to at most 1."""
    return 0.9 if look == 1 else 0.1 * 0.5 ** (look - 1)


def look_until(
    collect: Callable[[int], Rollouts],
    look: Callable[[Rollouts, float], tuple[float, Interval | NoInterval]],
    target: Target,
    confidence: float,
    most: int,
) -> tuple[Rollouts, float, Interval | NoInterval]:
    """Look until the interval is narrow enough or `most` episodes are there. Return (data, value, interval).

    `collect(n)` goes on to n new episodes in all, and returns all data.
    """
    new, stops, may_stop = min(FIRST, most), 0, False
    while True:
        data = collect(new)
        may_stop |= new >= most
        level = 1.0 - (1.0 - confidence) * spending(stops + 1)
        value, interval = look(data, level)
        if isinstance(interval, NoInterval):
            if new >= min(PATIENCE, most):
                return data, value, interval
            new = min(2 * new, PATIENCE, most)
            continue
        n = data.episodes
        interval = replace(for_few(interval, value, n), confidence=confidence)
        goal = target.of(value)
        if may_stop and interval.half_width <= goal:
            return data, value, interval
        if new >= most:
            note = f"{most} episodes are not enough for ± {goal:.3g}"
            return data, value, replace(interval, note=note if interval.note is None else f"{note}; {interval.note}")
        stops += may_stop
        needed = MARGIN * episodes_needed(interval, n, level, goal, 1.0 - (1.0 - confidence) * spending(stops + 1))
        if may_stop:
            planned = max(1.1 * n, min(needed, GROWTH * n))
        else:
            may_stop = needed <= SOON * n
            planned = max(needed, FRESH * n) if may_stop else SOON * n
        new = min(most, int(planned) + 1 - (n - new))


def for_few(interval: Interval, value: float, n: int) -> Interval:
    """The interval, widened on both sides of the value; but not if it counts outcomes, or is exact, or knows bounds."""
    wider = _widening(interval, n) - 1.0
    if wider == 0.0:
        return interval
    return replace(
        interval,
        low=interval.low - wider * max(value - interval.low, 0.0),
        high=interval.high + wider * max(interval.high - value, 0.0),
    )


def _widening(interval: Interval, n: float) -> float:
    return 1.0 if interval.skewness is None else 1.0 + (FEW + SKEWED * interval.skewness**2) / n


def episodes_needed(interval: Interval, n: int, level: float, goal: float, goal_level: float) -> float:
    """How many episodes make this interval of n episodes at one level as narrow as the goal at another.

    The interval is one that was widened, unless its skewness is None.

    The half-width is t·s/√n, widened, with Student's t for n − 1 degrees of freedom.
    """
    from scipy import special

    def unit(episodes: float, level: float) -> float:
        t = float(special.stdtrit(max(episodes - 1.0, 2.0), 0.5 + level / 2))
        return t * _widening(interval, episodes) / math.sqrt(episodes)

    spread = interval.half_width / unit(n, level)
    low, high = 3.0, 6.0
    while spread * unit(high, goal_level) > goal and high < MOST_PLANNED:
        low, high = high, 2.0 * high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if spread * unit(middle, goal_level) > goal else (low, middle)
    return high
