"""Intervals where returns take one value, two values, or one value most of the time: success and failure, sparse rewards.

The usual intervals come from the spread of the returns, and there the spread says too little: 50 successes of 50 have none
at all. What helps is that a share is bounded. Let x of n outcomes be "high". The interval of Clopper and Pearson (1934),

    P(X ≥ x | low) = α/2 = P(X ≤ x | high),   X binomial,

holds for any n and any share if the outcomes are independent. For balanced outcomes, whose mean varies less, Korn and
Graubard (1998) put the effective number of outcomes in the place of n, which is the number of independent ones that would
have the same standard error. Both are quantiles of beta distributions, which take any positive n.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from evenroll.errors import SpecError
from evenroll.intervals.independent import Interval, NoInterval, binomial, student_quantile

# The effective number of outcomes is believed if each of the two was seen this often, otherwise the number of episodes is.
SEEN_OFTEN = 10
ROUNDING = 1e-9  # a standard error of a share below this is none: it would stand for more outcomes than anybody has seen
GIVE_BOUNDS = "give the smallest and the largest possible return, bounds=(A, B) or --bounds A B"
MOSTLY = 0.5  # a single value "dominates" if it makes up at least this share of the returns; a choice


def other_outcomes(n: int, confidence: float) -> float:
    """How likely an outcome that was never seen in n episodes may be: about 3.7/n at 95 %."""
    return binomial(0, n, confidence)[1]


def effective_outcomes(share: float, error: float, freedom: int, n: int, confidence: float) -> float:
    """How many independent outcomes give a share the standard error that was found; few degrees of freedom count less."""
    if error < ROUNDING:
        return float(n)
    scale = student_quantile(confidence, n - 1) / student_quantile(confidence, freedom)
    return max(share * (1.0 - share) / error**2 * scale**2, 1.0)


def two_values(values: np.ndarray) -> tuple[float, float] | None:
    """(lower, higher) if exactly two values occur, otherwise None."""
    low, high = float(values.min()), float(values.max())
    return (low, high) if low < high and bool(np.all((values == low) | (values == high))) else None


def equal_returns(value: float, n: int, confidence: float, bounds: tuple[float, float] | None) -> Interval | NoInterval:
    """What n equal returns show: how rare any other outcome must be. What that one is worth only the bounds can tell."""
    rare = other_outcomes(n, confidence)
    found = f"all {n} returns were equal; an outcome that was not seen may have a probability of up to {rare:.2g}"
    if bounds is None:
        return NoInterval(f"{found}, and what it would be worth is not known: {GIVE_BOUNDS}")
    least, most = bounds
    low, high = value - rare * (value - least), value + rare * (most - value)
    if not math.isfinite(high - low):
        return NoInterval(f"{found}, and nothing bounds what it would be worth")
    return Interval(low, high, confidence, "binomial", found, fallback=True)


def rare_outcomes(returns: np.ndarray, confidence: float) -> tuple[float, float, str] | None:
    """(low, high, note) where one value dominates and fewer than `SEEN_OFTEN` returns differ from it; None elsewhere.

    The spread is then that of a handful of returns. This interval takes the share of the others from the binomial
    distribution and their worth from their mean, and belongs around any interval that was made from the spread.
    """
    values, counts = np.unique(returns, return_counts=True)
    usual, n = float(values[counts.argmax()]), len(returns)
    others = returns[returns != usual]
    if not 0 < len(others) < SEEN_OFTEN or counts.max() < MOSTLY * n or len(values) == 2:
        return None
    low, high = binomial(len(others), n, confidence)
    worth = float(others.mean()) - usual
    ends = sorted((usual + low * worth, usual + high * worth))
    return ends[0], ends[1], f"{n - len(others)} of {n} returns are equal, so the interval rests on {len(others)} others"


def rare_differences(gaps: np.ndarray, confidence: float) -> tuple[float, float, str] | None:
    """The same for paired differences, most of which are one value, usually 0; None where enough of them differ from it.

    A difference can lie on either side, so both shares have a binomial interval. Each spends half of what is allowed to go
    wrong. A side on which nothing was seen counts as much as the largest difference on the other.
    """
    values, counts = np.unique(gaps, return_counts=True)
    usual, n = float(values[counts.argmax()]), len(gaps)
    above, below = gaps[gaps > usual] - usual, usual - gaps[gaps < usual]
    if len(above) + len(below) >= SEEN_OFTEN or counts.max() < MOSTLY * n:
        return None
    level, largest = (1.0 + confidence) / 2, float(np.abs(gaps - usual).max())
    up, down = (binomial(len(side), n, level) for side in (above, below))
    rise, fall = (float(side.mean()) if len(side) else largest for side in (above, below))
    low, high = usual + up[0] * rise - down[1] * fall, usual + up[1] * rise - down[0] * fall
    others = len(above) + len(below)
    return low, high, f"{n - others} of {n} differences are equal, so the interval rests on {others} others"


def as_far_as_seen(interval: Interval, returns: np.ndarray, confidence: float) -> Interval:
    """What an exact interval is worth where the environment may leave something to chance that it has not shown yet.

    The actions explain every return. But what was not seen in n episodes may still have a probability of 3.7/n, and as
    nothing shows its worth, it is taken to be at most the range of the returns.
    """
    rare = other_outcomes(len(returns), confidence)
    half = rare * float(np.ptp(returns))
    note = (
        f"{interval.note}; an outcome that was not seen may have a probability of up to {rare:.2g}, and the interval takes "
        "it to be worth no more than the range of the returns"
    )
    return replace(
        interval, low=interval.low - half, high=interval.high + half, note=note, fallback=True, exact=False
    )  # fmt: skip


def around(interval: Interval, rare: tuple[float, float, str] | None) -> Interval:
    """The interval, widened to what `rare_outcomes` or `rare_differences` found."""
    if rare is None:
        return interval
    low, high, found = rare
    note = found if interval.note is None else f"{interval.note}; {found}"
    return replace(interval, low=min(interval.low, low), high=max(interval.high, high), note=note, fallback=True)


def within(interval: Interval, bounds: tuple[float, float] | None) -> Interval:
    """The interval without what the bounds of the returns rule out."""
    if bounds is None:
        return interval
    return replace(interval, low=max(interval.low, bounds[0]), high=min(interval.high, bounds[1]))


def check_bounds(returns: np.ndarray, bounds: tuple[float, float] | None) -> None:
    """Raise if a return lies outside the bounds, which then are none."""
    if bounds is None:
        return
    least, most = bounds
    if math.isnan(least) or math.isnan(most) or most < least or returns.min() < least or returns.max() > most:
        raise SpecError(f"returns lie outside the bounds {least:g} … {most:g}")
