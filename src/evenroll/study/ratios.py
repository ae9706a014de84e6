"""Positive numbers with standard errors, their ratios, and what a ratio decides.

Two numbers differ if the 95 % interval of their ratio leaves out 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

Z = 1.96  # of a 95 % interval
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "cannot tell"


@dataclass(frozen=True)
class Number:
    """A positive number with a standard error. Both are nan where there is none."""

    value: float
    se: float

    def over(self, other: Number) -> Ratio:
        """This number relative to another one, with the errors of both."""
        if not (self.value > 0 and other.value > 0):
            return Ratio(math.nan, math.nan, math.nan)
        spread = Z * math.hypot(self.se / self.value, other.se / other.value)
        ratio = self.value / other.value
        return Ratio(ratio, ratio * math.exp(-spread), ratio * math.exp(spread))

    def __str__(self) -> str:
        return f"{self.value:.2e} ± {self.se:.1e}" if math.isfinite(self.value) else "–"


@dataclass(frozen=True)
class Ratio:
    """A ratio with a 95 % interval. The interval is symmetric on the logarithmic scale, as squared errors are skewed."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return "–"
        return "1" if self.value == 1.0 else f"{self.value:.2g} [{self.low:.2g}, {self.high:.2g}]"


def below(ratio: Ratio, bound: float = 1.0) -> str:
    """Whether the ratio is below the bound, by the 95 % interval as a whole. An interval of nan decides nothing."""
    return HOLDS if ratio.high < bound else FAILS if ratio.low > bound else UNDECIDED


def above(ratio: Ratio, bound: float = 1.0) -> str:
    """Whether the ratio is above the bound, by the 95 % interval as a whole. An interval of nan decides nothing."""
    return HOLDS if ratio.low > bound else FAILS if ratio.high < bound else UNDECIDED


def together(verdicts: Iterable[str]) -> str:
    """The verdict on a claim about several comparisons: it holds if all do, and does not if one is reversed."""
    found = set(verdicts)
    return FAILS if FAILS in found else UNDECIDED if UNDECIDED in found or not found else HOLDS


def shown(name: str, ratio: Ratio) -> str:
    """The ratio as a line of the page."""
    return f"{name}: {ratio.value:.2g} [{ratio.low:.2g}, {ratio.high:.2g}]"
