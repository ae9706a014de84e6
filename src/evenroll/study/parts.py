"""What claims are made of: comparisons that can be read from any number of trials, with an interval of any level.

A claim is judged by its parts. Each part has a border, for example a ratio of 1, and one side of it on which the part holds.
The part holds if its whole interval lies on that side, is reversed if the whole interval lies on the other side, and is
otherwise undecided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenroll.study.blocks import Work
from evenroll.study.ratios import FAILS, HOLDS, UNDECIDED, Number, Ratio, Z, shown
from evenroll.study.ratios import above as is_above
from evenroll.study.ratios import below as is_below
from evenroll.study.results import Results, statistic
from evenroll.study.targets import Line

CLOSE = 0.01  # a ratio whose whole interval is within 1 % of its border: no figure of the paper shows such a difference
TREND = 0.5  # the correlation from which on there is a trend; a choice that stands in the claims' criterion


@dataclass(frozen=True)
class Critical:
    """How many standard errors an interval reaches, on the side that the part must clear to hold, and on the other side."""

    holds: float
    fails: float


USUAL = Critical(Z, Z)  # a 95 % interval
POINT = Critical(0.0, 0.0)  # no interval: the estimate alone is judged


@dataclass(frozen=True)
class Reading:
    """What some trials say of a part.

    text      the estimate and its interval, as a line of the page
    strength  how many standard errors the estimate lies on the side on which the part holds; nan where there is none
    trials    how many trials there are of what is compared; several numbers where these differ
    closed    why more trials would not decide the part, in words; empty where they might
    """

    name: str
    text: str
    verdict: str
    value: float
    low: float
    high: float
    strength: float
    trials: tuple[int, ...]
    closed: str = ""


class Part(Protocol):
    """One comparison of a claim."""

    @property
    def name(self) -> str: ...

    @property
    def usual(self) -> Critical:
        """What the claim's criterion judges the paper's trials by."""
        ...

    def wanted(self) -> dict[Work, int]:
        """The works that are compared, and how many of their trials the figure has."""
        ...

    def read(self, results: Results, critical: Critical) -> Reading:
        """What all trials of these results say."""
        ...


@dataclass(frozen=True)
class Measured:
    """What a panel shows of a line at one checkpoint."""

    line: Line
    quantity: str
    place: int = -1

    def number(self, results: Results) -> Number:
        """The mean over trials. A median has no standard error."""
        mean, _, high = statistic(results.curve(self.line), self.quantity)
        error = math.nan if self.quantity == "median" else float(high[self.place] - mean[self.place])
        return Number(float(mean[self.place]), error)

    def squared(self, results: Results) -> np.ndarray:
        """The squared errors of the trials that have an estimate."""
        values = results.curve(self.line).squared[:, self.place]
        return np.asarray(values[~np.isnan(values)])


def _wanted(measured: tuple[Measured, ...]) -> dict[Work, int]:
    return {m.line.work: m.line.trials for m in measured}


def _trials(measured: tuple[Measured, ...], results: Results) -> tuple[int, ...]:
    return tuple(sorted({len(results.found[m.line.work].data.values) for m in measured}))


def _logarithm(over: tuple[Measured, ...], under: tuple[Measured, ...], results: Results) -> Number | None:
    """The logarithm of a product over a product, with its standard error. Relative errors add in squares."""
    numbers = [m.number(results) for m in (*over, *under)]
    if not all(n.value > 0 for n in numbers):
        return None
    logs = [math.log(n.value) for n in numbers]
    value = math.fsum(logs[: len(over)]) - math.fsum(logs[len(over) :])
    return Number(value, math.hypot(*(n.se / n.value for n in numbers)))


def _closed(low: float, high: float, bound: float) -> str:
    """Why a ratio is too close to its border to be worth more trials, if it is."""
    if not (bound * (1.0 - CLOSE) < low and high < bound * (1.0 + CLOSE)):
        return ""
    return f"it lies between {low:.4g} and {high:.4g}, within {CLOSE:.0%} of the border".replace("%", " %")


@dataclass(frozen=True)
class RatioPart:
    """A ratio of means that must be below a bound, or above it. Its interval is symmetric on the logarithmic scale."""

    name: str
    over: tuple[Measured, ...]
    under: tuple[Measured, ...]
    below: bool = True
    bound: float = 1.0
    usual: Critical = USUAL

    def wanted(self) -> dict[Work, int]:
        return _wanted((*self.over, *self.under))

    def read(self, results: Results, critical: Critical) -> Reading:
        trials = _trials((*self.over, *self.under), results)
        log = _logarithm(self.over, self.under, results)
        if log is None or not math.isfinite(log.se):
            ratio = Ratio(math.nan if log is None else math.exp(log.value), math.nan, math.nan)
            return Reading(self.name, shown(self.name, ratio), UNDECIDED, ratio.value, math.nan, math.nan, math.nan, trials)
        downward, upward = (critical.fails, critical.holds) if self.below else (critical.holds, critical.fails)
        value = math.exp(log.value)
        ratio = Ratio(value, value * math.exp(-downward * log.se), value * math.exp(upward * log.se))
        verdict = is_below(ratio, self.bound) if self.below else is_above(ratio, self.bound)
        away = (math.log(self.bound) - log.value) * (1.0 if self.below else -1.0)
        return Reading(
            self.name, shown(self.name, ratio), verdict, value, ratio.low, ratio.high,
            away / log.se if log.se else math.copysign(math.inf, away), trials, _closed(ratio.low, ratio.high, self.bound),
        )  # fmt: skip


@dataclass(frozen=True)
class MedianPart:
    """A median squared error that must be below another one: intervals of both are not to overlap.

    Of two independent medians whose intervals each reach c standard errors, the ends that face each other are at least as
    far apart as c standard errors of the difference. So the part errs at most as often as one end of one interval.
    """

    name: str
    one: Measured
    other: Measured
    usual: Critical = USUAL

    def wanted(self) -> dict[Work, int]:
        return _wanted((self.one, self.other))

    def read(self, results: Results, critical: Critical) -> Reading:
        x, y = self.one.squared(results), self.other.squared(results)
        trials = _trials((self.one, self.other), results)
        if not len(x) or not len(y):
            return Reading(self.name, f"{self.name}: no estimate", UNDECIDED, math.nan, math.nan, math.nan, math.nan, trials)
        (_, below), (above, _) = median_interval(x, critical.holds), median_interval(y, critical.holds)
        (least, _), (_, most) = median_interval(x, critical.fails), median_interval(y, critical.fails)
        mine, theirs = float(np.median(x)), float(np.median(y))
        verdict = HOLDS if below < above else FAILS if least > most else UNDECIDED
        text = f"{self.name}: {mine:.2g} [{least:.2g}, {below:.2g}] against {theirs:.2g} [{above:.2g}, {most:.2g}]"
        strength, value, low, high = math.nan, math.nan, math.nan, math.nan
        if least > 0.0 and above > 0.0:
            value, low, high = mine / theirs, least / most, below / above
            reach = math.log(high / value) if mine < theirs else math.log(value / low)
            needed = critical.holds if mine < theirs else critical.fails
            strength = needed * math.log(theirs / mine) / reach if reach > 0.0 else math.copysign(math.inf, theirs - mine)
        return Reading(self.name, text, verdict, value, low, high, strength, trials, _closed(low, high, 1.0))


@dataclass(frozen=True)
class TrendPart:
    """The correlation of log ratios with their rank, which must be below −0.5. Above 0.5 it is reversed.

    Between them the claim's criterion decides nothing, however many trials there are. With y the log ratios, which have
    errors e, and x the ranks, both standardised, the correlation r has the standard error √Σ (xᵢ − r yᵢ)² eᵢ² / (n s_y).
    """

    name: str
    over: tuple[Measured, ...]
    under: tuple[Measured, ...]
    usual: Critical = POINT

    def wanted(self) -> dict[Work, int]:
        return _wanted((*self.over, *self.under))

    def read(self, results: Results, critical: Critical) -> Reading:
        trials = _trials((*self.over, *self.under), results)
        found = [_logarithm((a,), (b,), results) for a, b in zip(self.over, self.under, strict=True)]
        logs = [log for log in found if log is not None]
        y, errors = np.array([log.value for log in logs]), np.array([log.se for log in logs])
        if len(y) < 3 or not y.std() > 0.0:  # ratios that are all the same have no correlation
            return Reading(self.name, f"{self.name} +nan", UNDECIDED, math.nan, math.nan, math.nan, math.nan, trials)
        x = np.arange(len(y))
        x, spread, y = (x - x.mean()) / x.std(), float(y.std()), (y - y.mean()) / y.std()
        trend = float(np.mean(x * y))
        error = float(np.linalg.norm((x - trend * y) * errors) / (len(y) * spread))
        if critical == POINT:
            low = high = trend
        elif math.isfinite(error):
            low, high = max(trend - critical.fails * error, -1.0), min(trend + critical.holds * error, 1.0)
        else:
            low, high = -1.0, 1.0
        shown = f"{self.name} {trend:+.2f}" + ("" if critical == POINT else f" [{low:+.2f}, {high:+.2f}]")
        verdict = HOLDS if high < -TREND else FAILS if low > TREND else UNDECIDED
        border = -TREND if trend < 0.0 else TREND
        gap = abs(trend - border) / error if error > 0.0 else math.inf
        closed = ""
        if critical != POINT and low > -TREND and high < TREND:
            closed = f"it lies between {low:+.2f} and {high:+.2f}, where the criterion decides nothing"
        strength = math.nan if closed else math.copysign(gap, -trend)  # no number of trials reaches a border from there
        return Reading(self.name, shown, verdict, trend, low, high, strength, trials, closed)


@dataclass(frozen=True)
class BiasPart:
    """A mean error of estimates that must differ from 0, in either direction. It cannot be reversed."""

    name: str
    measured: Measured
    usual: Critical = USUAL

    def wanted(self) -> dict[Work, int]:
        return _wanted((self.measured,))

    def read(self, results: Results, critical: Critical) -> Reading:
        curve, place = results.curve(self.measured.line), self.measured.place
        mean, error = (float(x[place]) for x in curve.over_trials(curve.estimates - 1.0))
        away = mean / error if error > 0.0 else math.nan
        text = f"{self.name} {mean:+.3f}, {away:+.1f} standard errors"
        reach = critical.holds * error
        return Reading(
            self.name, text, HOLDS if abs(away) > critical.holds else UNDECIDED, mean, mean - reach, mean + reach,
            abs(away), _trials((self.measured,), results),
        )  # fmt: skip


def median_interval(x: np.ndarray, critical: float = Z) -> tuple[float, float]:
    """An interval of the median for any distribution: the order statistics n/2 ± critical/2 · √n; by default 95 %."""
    x = np.sort(x[~np.isnan(x)])
    half = critical / 2 * math.sqrt(len(x))
    low, high = max(math.floor(len(x) / 2 - half), 0), min(math.ceil(len(x) / 2 + half), len(x) - 1)
    return float(x[low]), float(x[high])
