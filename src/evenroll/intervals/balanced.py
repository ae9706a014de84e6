"""Intervals for independent trajectories, and one for balanced data (ROS and its kin) from a single run.

Balanced data.  MC − v = b + ε̄, where b = slope · mean(C) is the imbalance that is left, which the data shows, and ε̄ the
mean of the residuals (scores.py). Given b, the error of MC is b + s·T with T ~ Student t; so the half-width h of

    MC ± h:      P(|b + s·T| ≤ h) = confidence

is exact given the imbalance, and never less than |b|. For `score`, b = 0: value ± t·s. Any other estimate e gets
|e − score| + t·s, which contains the interval of `score`. Where the regression leaves no residual, s = 0, the value is
known: then the interval is that value up to rounding, whatever the estimate, and the note says how far off that is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import NoEstimate, SpecError
from evenroll.estimators.score_regression import ROUNDING, ScoreRegression, score_regression
from evenroll.estimators.table import Estimator
from evenroll.policies import Policy
from evenroll.samplers import Sampler

FEWEST = 30  # episodes below which residuals say too little: the i.i.d. interval instead
RESAMPLES = 2000  # of the bootstrap
IID_KINDS = ("t", "bca", "bernstein")
KINDS = ("auto", *IID_KINDS, "score")


@dataclass(frozen=True)
class Interval:
    """low ≤ v ≤ high with probability `confidence`.

    kind      t, bca, bernstein (independent trajectories), score (balanced data)
    note      what to know about it, or None
    fallback  wider than the method would give: too little data for it
    exact     the regression left nothing but rounding error: it holds the value, and mc only if that is balanced to the end
    """

    low: float
    high: float
    confidence: float
    kind: str
    note: str | None = None
    fallback: bool = False
    exact: bool = False

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


# ---- independent values ----------------------------------------------------------------------------------------


def _quantile(confidence: float, freedom: float) -> float:
    from scipy import stats

    return float(stats.t.ppf(0.5 + confidence / 2, freedom))


def student_t(values: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Mean ± t · s/√n: for independent values only. Returns of ROS-like samplers are not."""
    n = len(values)
    if n < 2:
        raise NoEstimate("an interval needs at least 2 finished trajectories")
    half = _quantile(confidence, n - 1) * float(values.std(ddof=1)) / math.sqrt(n)
    return float(values.mean()) - half, float(values.mean()) + half


def bca(
    values: np.ndarray,
    confidence: float = 0.95,
    seed: int = 0,
    statistic: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[float, float]:
    """Bias-corrected and accelerated bootstrap (Efron 1987) of the mean, or of `statistic` along the last axis."""
    from scipy import stats

    n = len(values)
    if n < 2:
        raise NoEstimate("an interval needs at least 2 finished trajectories")
    of = statistic or (lambda x: x.mean(axis=-1))
    rng = np.random.default_rng(seed)
    center = float(of(values))
    draws = np.concatenate([of(values[rng.integers(n, size=(100, n))]) for _ in range(RESAMPLES // 100)])
    left_out = of(np.array([np.delete(values, i) for i in range(n)])) if statistic else (values.sum() - values) / (n - 1)
    lean = left_out.mean() - left_out
    square = float((lean**2).sum())
    if square == 0.0:
        return center, center
    acceleration = float((lean**3).sum()) / (6.0 * square**1.5)
    below = (np.sum(draws < center) + 0.5 * np.sum(draws == center)) / len(draws)
    z0 = stats.norm.ppf(np.clip(below, 1.0 / len(draws), 1.0 - 1.0 / len(draws)))
    z = z0 + stats.norm.ppf([0.5 - confidence / 2, 0.5 + confidence / 2])
    low, high = np.quantile(draws, stats.norm.cdf(z0 + z / (1.0 - acceleration * z)))
    return float(low), float(high)


def empirical_bernstein(
    values: np.ndarray, confidence: float = 0.95, bounds: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Mean ± √(2 s² L/n) + 7 R L/(3(n−1)), L = log(4/α), R the returns' range (Maurer & Pontil 2009): any n, any shape.

    `bounds` of the returns must be known beforehand; nothing that the data shows can replace them.
    """
    n = len(values)
    if n < 2:
        raise NoEstimate("an interval needs at least 2 finished trajectories")
    if bounds is None:
        raise SpecError("bernstein needs the smallest and the largest possible return")
    least, most = bounds
    if not math.isfinite(most - least) or most < least or values.min() < least or values.max() > most:
        raise SpecError(f"returns lie outside the bounds {least:g} … {most:g}")
    L = math.log(4.0 / (1.0 - confidence))
    half = math.sqrt(2.0 * float(values.var(ddof=1)) * L / n) + 7.0 * (most - least) * L / (3.0 * (n - 1))
    mean = float(values.mean())
    return max(least, mean - half), min(most, mean + half)


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact binomial interval of a share."""
    from scipy import stats

    alpha = 1.0 - confidence
    low = float(stats.beta.ppf(alpha / 2, successes, trials - successes + 1)) if successes else 0.0
    high = float(stats.beta.ppf(1 - alpha / 2, successes + 1, trials - successes)) if successes < trials else 1.0
    return low, high


# ---- balanced data ---------------------------------------------------------------------------------------------


def centred_half_width(imbalance: float, error: float, freedom: float, confidence: float = 0.95) -> float:
    """h with P(|b + s·T| ≤ h) = confidence: t·s for b = 0, |b| + (one-sided t)·s for |b| ≫ s."""
    from scipy import special

    b = abs(imbalance)
    if error == 0.0:
        return b
    low, high = b, b + error * _quantile(confidence, freedom)
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
        half = abs(estimate - fit.value) + _quantile(confidence, fit.freedom) * fit.error
    notes = []
    n = len(returns)
    # What independent trajectories would have: conservative for balanced data, whose mean varies less.
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
        notes.append("the scores explain every return" + (f"; {estimator} is off by {off:+.2g}" if off else ""))
    half += ROUNDING * float(np.abs(returns).max())
    return Interval(centre - half, centre + half, confidence, "score", "; ".join(notes) or None, fell_back, exact)


def estimate_with_interval(
    rollouts: Rollouts,
    policy: Policy,
    sampler: Sampler,
    estimator: Estimator,
    confidence: float = 0.95,
    *,
    kind: str = "auto",
    force: bool = False,
    bounds: tuple[float, float] | None = None,
) -> tuple[float, Interval | str]:
    """The estimate, and the interval that belongs to it or the reason why there is none.

    auto: Student's t for mc on independent on-policy trajectories and for ois, else `score`.
    An i.i.d. kind on dependent data is refused unless forced, and then says so.
    """
    if kind not in KINDS:
        raise SpecError(f"unknown interval {kind!r}; known: {', '.join(KINDS)}")
    on_policy = sampler.independent and sampler.on_policy and rollouts.initial_episodes == 0
    weighted = estimator.name == "ois"  # given the past each w·g has mean v whatever the behaviour: a martingale
    if kind == "auto" and (weighted or (on_policy and estimator.name == "mc")):
        kind = "t"
    if kind in IID_KINDS:
        estimate = estimator(rollouts, policy)
        if rollouts.episodes < 3:
            return estimate, "fewer than 3 trajectories have finished"
        return estimate, _iid_interval(rollouts, sampler, estimator.name, confidence, kind, force, bounds, on_policy)
    if sampler.name in ("off", "bpg"):
        why = f"{estimator.name} on {sampler.name} data: the behaviour is not near π_e; ois has an interval there"
        return estimator(rollouts, policy), why
    if rollouts.episodes < 3:
        return estimator(rollouts, policy), "fewer than 3 trajectories have finished"
    fit = score_regression(rollouts, policy)
    estimate = fit.value if estimator.name == "score" else estimator(rollouts, policy)
    return estimate, balanced_interval(fit, rollouts.returns, estimate, confidence, estimator=estimator.name)


def _iid_interval(
    rollouts: Rollouts, sampler: Sampler, estimator: str, confidence: float, kind: str, force: bool,
    bounds: tuple[float, float] | None, on_policy: bool,
) -> Interval:  # fmt: skip
    if estimator not in ("mc", "ois"):
        raise SpecError(f"a {kind} interval is one of a mean: use mc or ois, not {estimator}")
    independent = sampler.independent and rollouts.initial_episodes == 0
    valid = on_policy or (estimator == "ois" and (independent or kind == "t"))
    if not valid and not force:
        why = "depend on each other" if not independent else "come from another policy"
        raise SpecError(
            f"a {kind} interval is for independent on-policy trajectories; those of {sampler.name} {why}: "
            "use --interval auto, or --force-interval to have it nevertheless"
        )
    values = rollouts.returns
    if estimator == "ois":
        values = values * np.exp(rollouts.column("log_weights"))
    if kind == "bernstein":
        low, high = empirical_bernstein(values, confidence, bounds)
    else:
        low, high = (student_t if kind == "t" else bca)(values, confidence)
    note = None if valid else f"forced: trajectories of {sampler.name} are not independent, so this is not {confidence:.0%}"
    return Interval(low, high, confidence, kind, note)
