"""Deciding while episodes come in: intervals that may be looked at again and again, and stopped at any of the looks.

An interval that holds the truth with 95 % at one look fails far more often if one looks after every pair of episodes and
stops when it is pleased. Here the whole run may fail with probability α. A *spending function* says how much of α may have
been used up after n pairs of at most N (Lan and DeMets 1983):

    α(n) = 0.9 α · [ ½ · n/N + ½ · log(n/2.5) / log(N/2.5) ]

Half of it grows with n, which is best where a small difference needs nearly all N pairs, and half with log n, which is best
where a large one needs few. A tenth of α is kept for what the normal approximation does not see. Under it, estimates after
n₁ < n₂ < … pairs are a Brownian motion at the times n_k, and the level of each look follows from

    P(the motion first leaves ± c_k √n_k at look k) = α(n_k) − α(n_{k−1}),    level_k = 2 Φ(−c_k),

by integrating the density of those that have not left yet from look to look (Armitage, McPherson and Rowe 1969). Whoever
estimates the spread from n values uses the same levels with Student's distribution, which makes the whole fail a little more
often than α(N) (docs/experiments-deciding.md). The interval of each look is a *repeated confidence interval* (Jennison and
Turnbull 1989): all of them together hold the truth with probability 1 − α.

Success and failure need no approximation: intervals/success_pairs.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from evenroll.intervals.independent import Interval
from evenroll.intervals.skewed import for_skewness

FIRST = 5  # pairs before the first look
EVERY = 20  # up to so many pairs there is a look after every pair
GROWTH = 1.05  # from then on, a look has so many times the pairs of the look before; a choice
KEPT = 0.9  # the share of α that is spent
BEFORE = 2.5  # pairs at which log n begins to spend; a choice, half of the first look
SKEWED = 16.0  # how much skewness widens the intervals of returns; of 0, 8 and 16 (docs/experiments-deciding.md)
POINTS = 201  # of the grid that the density lives on; with 1,201 no level changes by more than 1 %
LUCKY = 0.7  # how much more than √n the error may gain until the last look; a choice
HOPELESS = 0.1  # below this chance of a verdict more pairs are not collected; docs/experiments-deciding.md
PATIENT = 1 / 3  # the share of all pairs before which nothing is called hopeless; a choice
MOST_FIXED = 1e9  # pairs; a test that needs more is not worth telling
FEW_FIXED = 1000  # pairs up to which Student's distribution matters


def looks(most: int, whole: Callable[[int], int] = int, growth: float = GROWTH) -> tuple[int, ...]:
    """After how many pairs to look; the last time at `most`.

    whole   where pairs come several at a time: how many there are at least, when n are wanted
    growth  a look has so many times the pairs of the look before
    """
    found, n = [], FIRST
    while n < most:
        found.append(min(whole(n), most))
        n = n + 1 if n < EVERY and growth == GROWTH else max(n + 1, int(n * growth))
    return tuple(dict.fromkeys([*found, most]))


def spent(n: float, most: int, alpha: float) -> float:
    """α(n): how much of α may have been used up after n pairs of at most `most`."""
    if n >= most:
        return KEPT * alpha
    return KEPT * alpha * (n / most + math.log(n / BEFORE) / math.log(most / BEFORE)) / 2.0


@functools.lru_cache(maxsize=64)
def levels(when: tuple[int, ...], alpha: float) -> tuple[float, ...]:
    """The two-sided level of the look after each of these numbers of pairs."""
    from scipy import special

    result: list[float] = []
    at, mass = np.zeros(1), np.ones(1)  # where a motion that has not left yet may be, and with which probability
    before, used = 0, 0.0
    for n in when:
        step, allowed = math.sqrt(n - before), spent(n, when[-1], alpha) - used
        low, high = 0.0, 12.0 * math.sqrt(n)
        for _ in range(60):
            c = (low + high) / 2
            leaves = float(((special.ndtr((-c - at) / step) + special.ndtr((at - c) / step)) * mass).sum())
            low, high = (c, high) if leaves > allowed else (low, c)
        result.append(2.0 * float(special.ndtr(-high / math.sqrt(n))))
        grid = np.linspace(-high, high, POINTS)
        weights = np.full(POINTS, grid[1] - grid[0])
        weights[[0, -1]] /= 2
        density = np.exp(-0.5 * np.square((grid[:, None] - at) / step)) @ mass / (step * math.sqrt(2.0 * math.pi))
        at, mass, before, used = grid, density * weights, n, used + allowed
    return tuple(result)


def for_rare_failures(interval: Interval, value: float, n: int) -> Interval:
    """The interval of a look, so much wider on the side of the long tail that it is SKEWED·γ²/n in all, if it was not yet.

    The differences of two equal policies are symmetric. Those of two others need not be: a policy may be a little better
    most of the time and fail badly once in a while. A single look allows for that (intervals/skewed.py); whoever looks
    again and again stops when few failures have been seen.
    """
    if not interval.skewness:
        return interval
    square = interval.skewness**2 / n
    return for_skewness(interval, value, n, max((1.0 + SKEWED * square) / (1.0 + interval.tail) - 1.0, 0.0) / square)


def chance_to_decide(
    value: float, error: float, n: int, most: int, bounds: tuple[float, float], lucky: float = LUCKY
) -> float:
    """How likely the last look will find the difference outside the bounds, (−margin, margin), judging by what is there.

    The estimate at the last look is expected at the present one, ± what is not known yet. Its error may fall faster than
    √n, because balancing and what is learnt of actions get better: it is taken to fall to a share `lucky` of that.
    """
    from scipy import special

    last = lucky * error * math.sqrt(n / most)
    spread = math.sqrt(max(error**2 - last**2, 0.0))
    if spread == 0.0:
        return 0.0 if bounds[0] <= value <= bounds[1] else 1.0
    reach = 1.96 * last
    above, below = bounds[1] + reach - value, value - bounds[0] + reach
    return float(special.ndtr(-above / spread) + special.ndtr(-below / spread))


def fixed_size(gap: float, spread: float, confidence: float, power: float = 0.8) -> int | None:
    """How many on-policy pairs a test with a fixed number of them needs to tell a gap of this size, with this power."""
    from scipy import special, stats

    if not gap > 0.0 or not spread > 0.0 or not math.isfinite(spread / gap):
        return None
    tail = (1.0 - confidence) / 2
    n = max(3.0, ((special.ndtri(1.0 - tail) + special.ndtri(power)) * spread / gap) ** 2)
    if n > MOST_FIXED:
        return None
    n = math.ceil(n)
    while n < FEW_FIXED:  # Student's distribution matters while pairs are few
        t = stats.t.ppf(1.0 - tail, n - 1)
        if stats.nct.sf(t, n - 1, gap / spread * math.sqrt(n)) >= power:
            break
        n += 1
    return int(n)
