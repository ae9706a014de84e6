"""The interval of balanced data (ROS and its kin) from a single run, and the choice of the interval that fits an estimate.

On balanced data MC − v = b + ε̄. Here b = slope · mean(C) is the imbalance that is left, which the data shows, and ε̄ is the
mean of the residuals (`estimators/score_regression.py`). Given b, the error of MC is b + s·T, where T has Student's
distribution. So the half-width h of

    MC ± h:      P(|b + s·T| ≤ h) = confidence

is exact given the imbalance, and never less than |b|. For `score` b = 0, and the interval is value ± t·s. Any other
estimate e gets |e − score| + t·s, which contains the interval of `score`. The end towards the long tail of skewed values
lies a little farther away (`skewed.py`). Where the regression leaves no residual, s = 0,
the value is known. Then the interval is that value up to rounding, whatever the estimate, and the note says how far off
the estimate is.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import SpecError
from evenroll.estimators.score_regression import FEWEST, ROUNDING, ScoreRegression, score_regression
from evenroll.estimators.skewness import skewness
from evenroll.estimators.table import Estimator
from evenroll.intervals.independent import (
    Interval,
    NoInterval,
    bca,
    binomial,
    empirical_bernstein,
    student_quantile,
    student_t,
)
from evenroll.intervals.outcomes import (
    SEEN_OFTEN,
    around,
    check_bounds,
    effective_outcomes,
    equal_returns,
    rare_outcomes,
    two_values,
    within,
)
from evenroll.intervals.skewed import for_skewness, second_order
from evenroll.policies import Policy
from evenroll.samplers import Sampler

IID_KINDS = ("t", "bca", "bernstein")
KINDS = ("auto", *IID_KINDS, "score")
SHOWS = 0.05  # how much longer an interval has to be for its skewness to be worth a word; a choice
TOO_FEW = NoInterval("fewer than 3 trajectories have finished")


def centred_half_width(imbalance: float, error: float, freedom: float, confidence: float = 0.95) -> float:
    """The h with P(|b + s·T| ≤ h) = confidence. It is t·s for b = 0, and |b| + (one-sided t)·s for |b| ≫ s."""
    from scipy import special

    b = abs(imbalance)
    if error == 0.0:
        return b
    low, high = b, b + error * student_quantile(confidence, freedom)
    for _ in range(60):
        h = (low + high) / 2
        covered = special.stdtr(freedom, (h - b) / error) - special.stdtr(freedom, (-h - b) / error)
        low, high = (h, high) if covered < confidence else (low, h)
    return high


def balanced_interval(
    fit: ScoreRegression, returns: np.ndarray, estimate: float, confidence: float = 0.95, *, estimator: str = "mc"
) -> Interval:
    """The interval of `estimate` on balanced data, from the score regression of the same data."""
    if estimator == "mc":
        half = centred_half_width(fit.imbalance, fit.error, fit.freedom, confidence)
    else:
        half = abs(estimate - fit.value) + student_quantile(confidence, fit.freedom) * fit.error
    notes = []
    n = len(returns)
    # The half-width for independent trajectories is conservative for balanced data, whose mean varies less.
    low, high = student_t(returns, confidence)
    fallback = max(half, abs(estimate - float(returns.mean())) + (high - low) / 2)
    if n < FEWEST:
        half = fallback
        notes.append(f"only {n} episodes: as wide as for independent trajectories")
    elif fit.unseen > 0.0:
        half = min(half + fit.unseen * float(np.ptp(returns)), fallback)
        notes.append(f"allows for actions hardly ever taken, {fit.unseen * n:.2g} of all, whose worth is not known")
    centre, fell_back = estimate, bool(notes)
    exact = fit.exact and not fell_back
    if exact:
        centre, half = fit.value, 0.0
        off = estimate - fit.value
        seen = "the scores explain every return, so the value is known unless the environment can do what it did not do here"
        notes.append(seen + (f"; {estimator} is off by {off:+.2g}" if off else ""))
    half += ROUNDING * float(np.abs(returns).max())
    made = Interval(
        centre - half, centre + half, confidence, "score", "; ".join(notes) or None, fell_back, exact,
        skewness=None if exact else fit.skewness,
    )  # fmt: skip
    # What is allowed for actions that were hardly ever taken is more than what a few residuals of theirs could tell.
    return made if fit.unseen > 0.0 else _towards_the_tail(made, centre, n)


def _towards_the_tail(made: Interval, value: float, n: int) -> Interval:
    """The interval, longer on the side of the long tail of skewed values, which it says where it shows."""
    wider = for_skewness(made, value, n, second_order(made.confidence))
    if made.skewness is None or wider.high - wider.low < (1.0 + SHOWS) * (made.high - made.low):
        return wider
    said = (
        f"{'low' if made.skewness < 0.0 else 'high'} values are rare and far from the others (skewness "
        f"{made.skewness:.2g}), so the interval reaches farther on their side"
    ).replace("-", "−")
    return replace(wider, note=said if made.note is None else f"{made.note}; {said}")


def outcomes_interval(
    fit: ScoreRegression, returns: np.ndarray, values: tuple[float, float], estimate: float, confidence: float
) -> Interval:
    """The interval of balanced data whose returns take two values only (intervals/outcomes.py).

    It is that of a share whose standard error is the regression's. Where one of the two values is rare, the regression says
    too little, and the interval is that of independent outcomes. The estimate, which may be unbalanced, lies within it.
    """
    low, high = values
    n, scale = len(returns), high - low
    often = int(np.sum(returns == high))
    share = min(max((fit.value - low) / scale, 0.0), 1.0)
    trusted = n >= FEWEST and min(often, n - often) >= SEEN_OFTEN
    outcomes = effective_outcomes(share, fit.error / scale, fit.freedom, n, confidence) if trusted else float(n)
    if not trusted:
        share = often / n
    least, most = binomial(share * outcomes, outcomes, confidence)
    least, most = max(least - fit.unseen, 0.0), min(most + fit.unseen, 1.0)
    inside = min(max((estimate - low) / scale, 0.0), 1.0)
    least, most = min(least, inside), max(most, inside)
    note = f"returns are {low:g} or {high:g}" + ("" if trusted else ": as wide as for independent trajectories")
    return Interval(low + least * scale, low + most * scale, confidence, "score", note, not trusted)


def estimate_with_interval(
    rollouts: Rollouts,
    policy: Policy | None,
    sampler: Sampler,
    estimator: Estimator,
    confidence: float = 0.95,
    *,
    kind: str = "auto",
    force: bool = False,
    bounds: tuple[float, float] | None = None,
    fit: ScoreRegression | None = None,
) -> tuple[float, Interval | NoInterval]:
    """The estimate, and the interval that belongs to it or the reason why there is none.

    `auto` is Student's t for mc on independent on-policy trajectories and for ois. Otherwise it is `score`.
    A kind that is meant for independent trajectories is refused on dependent data. `force` allows it, and its note says so.
    Equal returns have no spread, whatever the kind: `equal_returns` says what they show. Two values are counted.

    policy  None where no probabilities of actions are known: there are only mc and score
    bounds  the smallest and the largest possible return, if they are known: no interval goes beyond them
    fit     the score regression of these rollouts, if it is at hand already
    """
    check_kind(kind, sampler, estimator.name, initial=rollouts.initial_episodes > 0, force=force, bounds=bounds)
    returns = rollouts.returns
    if len(returns):
        check_bounds(returns, bounds)
    if len(returns) >= 3 and float(np.ptp(returns)) == 0.0 and kind != "bernstein":
        return estimator(rollouts, policy), equal_returns(float(returns[0]), len(returns), confidence, bounds)
    on_policy = sampler.independent and sampler.on_policy and rollouts.initial_episodes == 0
    weighted = estimator.name == "ois"  # given the past, each w·g has mean v: a martingale
    counted = kind == "auto" and estimator.name in ("mc", "score")  # other estimates need not lie between two values
    values = two_values(returns) if counted and rollouts.episodes >= 3 else None
    if kind == "auto" and (weighted or (on_policy and estimator.name == "mc")):
        kind = "t"
    if kind in IID_KINDS:
        estimate = estimator(rollouts, policy)
        if rollouts.episodes < 3:
            return estimate, TOO_FEW
        if values is not None:
            return estimate, _share_interval(returns, values, confidence)
        made = _iid_interval(rollouts, sampler, estimator.name, confidence, kind, bounds)
        return estimate, within(made if kind == "bernstein" else around(made, rare_outcomes(returns, confidence)), bounds)
    if sampler.name in ("off", "bpg"):
        why = f"{estimator.name} on {sampler.name} data: the behaviour is not near π_e; ois has an interval there"
        return estimator(rollouts, policy), NoInterval(why)
    if rollouts.episodes < 3:
        return estimator(rollouts, policy), TOO_FEW
    fit = fit or score_regression(rollouts, policy)
    estimate = fit.value if estimator.name == "score" else estimator(rollouts, policy)
    if values is not None and not fit.exact:
        return estimate, outcomes_interval(fit, returns, values, estimate, confidence)
    made = balanced_interval(fit, returns, estimate, confidence, estimator=estimator.name)
    return estimate, within(made if made.exact else around(made, rare_outcomes(returns, confidence)), bounds)


def check_kind(
    kind: str, sampler: Sampler, estimator: str, *, initial: bool, force: bool, bounds: tuple[float, float] | None
) -> None:
    """Raise if there is no interval of this kind, whatever the data will be. So it can be asked before any is collected."""
    if kind not in KINDS:
        raise SpecError(f"unknown interval {kind!r}; known: {', '.join(KINDS)}")
    if bounds is not None and not bounds[0] <= bounds[1]:
        raise SpecError(f"bounds are the smallest and the largest possible return, not {bounds[0]:g} and {bounds[1]:g}")
    if kind not in IID_KINDS:
        return
    if estimator not in ("mc", "ois"):
        raise SpecError(f"a {kind} interval is one of a mean: use mc or ois, not {estimator}")
    if not force and not _is_for(kind, sampler, estimator, initial):
        why = "come from another policy" if sampler.independent and not initial else "depend on each other"
        instead = "--interval auto" if sampler.name == "os" else "--interval auto, or --sampler os,"
        raise SpecError(
            f"a {kind} interval is for independent on-policy trajectories; those of {sampler.name} {why}: "
            f"use {instead} or --force-interval to have it nevertheless"
        )
    if kind == "bernstein" and (bounds is None or not math.isfinite(bounds[1] - bounds[0])):
        raise SpecError("bernstein needs the smallest and the largest possible return, both finite: --bounds LOW HIGH")


def _is_for(kind: str, sampler: Sampler, estimator: str, initial: bool) -> bool:
    """Whether an interval for independent trajectories is one for these."""
    independent = sampler.independent and not initial
    return (independent and sampler.on_policy) or (estimator == "ois" and (independent or kind == "t"))


def _share_interval(returns: np.ndarray, values: tuple[float, float], confidence: float) -> Interval:
    """The exact binomial interval of independent returns that take two values."""
    low, high = values
    least, most = binomial(int(np.sum(returns == high)), len(returns), confidence)
    note = f"returns are {low:g} or {high:g}"
    return Interval(low + least * (high - low), low + most * (high - low), confidence, "binomial", note)


def _iid_interval(
    rollouts: Rollouts, sampler: Sampler, estimator: str, confidence: float, kind: str, bounds: tuple[float, float] | None
) -> Interval:
    valid = _is_for(kind, sampler, estimator, rollouts.initial_episodes > 0)
    values = rollouts.returns
    if estimator == "ois":
        values = values * np.exp(rollouts.column("log_weights"))
    if kind == "bernstein":
        low, high = empirical_bernstein(values, confidence, bounds)
    else:
        low, high = (student_t if kind == "t" else bca)(values, confidence)
    note = None if valid else f"forced: trajectories of {sampler.name} are not independent, so this is not {confidence:.0%}"
    return Interval(low, high, confidence, kind, note, skewness=skewness(values) if kind == "t" else None)
