"""Intervals for the mean of independent values, and the record that every interval is returned in.

Importing SciPy's statistics takes longer than most evaluations, so each function imports them when it needs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenroll.errors import NoEstimate, SpecError

RESAMPLES = 2000  # of the bootstrap; a choice
BATCH = 100  # resamples in memory at once: 16 MB at n = 20,000


@dataclass(frozen=True)
class Interval:
    """low ≤ v ≤ high with probability `confidence`.

    kind      how it was made: t, bca, bernstein or binomial for independent trajectories, score for balanced data
    note      what to know about the interval, or None
    fallback  whether it is wider than its method alone would make it, because there is too little data for the method
    exact     whether the regression left nothing but rounding error. Then the interval holds the value itself; it holds the
              mean of the returns only if the data is perfectly balanced.
    skewness  the skewness of the values that it was made from, where their skewness tells of its coverage
    tail      by which share of its distance the end towards their long tail was moved outwards (`skewed.py`)
    """

    low: float
    high: float
    confidence: float
    kind: str
    note: str | None = None
    fallback: bool = False
    exact: bool = False
    skewness: float | None = None
    tail: float = 0.0

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class NoInterval:
    """There is an estimate, but no interval that could be trusted; `why` says the reason in words."""

    why: str

    def __str__(self) -> str:
        return self.why


def student_quantile(confidence: float, freedom: float) -> float:
    """The t with P(|T| ≤ t) = confidence, where T has Student's distribution."""
    from scipy import special  # `stats.t.ppf` gives the same, and takes a second to import

    return float(special.stdtrit(freedom, 0.5 + confidence / 2))


def student_t(values: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Mean ± t · s/√n. It is for independent values only, and the returns of samplers like ROS are not independent."""
    n = _count(values)
    half = student_quantile(confidence, n - 1) * float(values.std(ddof=1)) / math.sqrt(n)
    return float(values.mean()) - half, float(values.mean()) + half


def bca(
    values: np.ndarray,
    confidence: float = 0.95,
    seed: int = 0,
    statistic: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[float, float]:
    """Bias-corrected and accelerated bootstrap (Efron 1987) of the mean, or of `statistic` along the last axis.

    The time grows with the square of n, because the acceleration leaves out each value in turn. At n = 20,000 it takes
    2 s of one core. If all values are equal, the interval is the single point that they give.
    """
    from scipy import stats

    _count(values)
    of = statistic or (lambda x: x.mean(axis=-1))
    if float(np.ptp(values)) == 0.0:
        return float(of(values)), float(of(values))
    limits = stats.bootstrap(
        (values,), lambda x, axis: of(x), n_resamples=RESAMPLES, batch=BATCH, vectorized=True, axis=-1,
        confidence_level=confidence, method="BCa", random_state=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    if not math.isfinite(limits.high - limits.low):
        raise NoEstimate("the bootstrap gives no interval: its resamples are all equal, or all on one side of the estimate")
    return float(limits.low), float(limits.high)


def empirical_bernstein(
    values: np.ndarray, confidence: float = 0.95, bounds: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Mean ± √(2 s² L/n) + 7 R L/(3(n−1)), with L = log(4/α) and R the range of the returns (Maurer & Pontil 2009).

    It is valid for any n and for returns of any shape. The `bounds` of the returns must be known beforehand, because
    nothing that the data shows can replace them.
    """
    n = _count(values)
    if bounds is None:
        raise SpecError("bernstein needs the smallest and the largest possible return: --bounds LOW HIGH")
    least, most = bounds
    if not math.isfinite(most - least) or most < least or values.min() < least or values.max() > most:
        raise SpecError(f"returns lie outside the bounds {least:g} … {most:g}")
    L = math.log(4.0 / (1.0 - confidence))
    half = math.sqrt(2.0 * float(values.var(ddof=1)) * L / n) + 7.0 * (most - least) * L / (3.0 * (n - 1))
    mean = float(values.mean())
    return max(least, mean - half), min(most, mean + half)


def binomial(successes: float, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a share (Clopper and Pearson 1934). The numbers need not be whole (`outcomes.py`)."""
    from scipy import special

    tail = (1.0 - confidence) / 2
    low = 0.0 if successes <= 0.0 else float(special.betaincinv(successes, trials - successes + 1.0, tail))
    high = 1.0 if successes >= trials else float(special.betaincinv(successes + 1.0, trials - successes, 1.0 - tail))
    return low, high


def _count(values: np.ndarray) -> int:
    """The number of values. Fewer than two have no interval, and are refused."""
    if len(values) < 2:
        raise NoEstimate("an interval needs at least 2 finished trajectories")
    return len(values)
