"""The interval of balanced data (ROS and its kin) from a single run, and the choice of the interval that fits an estimate.

On balanced data MC − v = b + ε̄. Here b = slope · mean(C) is the imbalance that is left, which the data shows, and ε̄ is the
mean of the residuals (`estimators/score_regression.py`). Given b, the error of MC is b + s·T, where T has Student's
distribution. So the half-width h of

    MC ± h:      P(|b + s·T| ≤ h) = confidence

is exact given the imbalance, and never less than |b|. For `score` b = 0, and the interval is value ± t·s. Any other
estimate e gets |e − score| + t·s, which contains the interval of `score`. Where the regression leaves no residual, s = 0,
the value is known. Then the interval is that value up to rounding, whatever the estimate, and the note says how far off
the estimate is.
"""

from __future__ import annotations

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import SpecError
from evenroll.estimators.score_regression import ROUNDING, ScoreRegression, score_regression
from evenroll.estimators.table import Estimator
from evenroll.intervals.independent import Interval, NoInterval, bca, empirical_bernstein, student_quantile, student_t
from evenroll.policies import Policy
from evenroll.samplers import Sampler

FEWEST = 30  # with fewer episodes the residuals say too little, and the interval is as wide as for independent trajectories
IID_KINDS = ("t", "bca", "bernstein")
KINDS = ("auto", *IID_KINDS, "score")
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
) -> tuple[float, Interval | NoInterval]:
    """The estimate, and the interval that belongs to it or the reason why there is none.

    `auto` is Student's t for mc on independent on-policy trajectories and for ois. Otherwise it is `score`.
    A kind that is meant for independent trajectories is refused on dependent data. `force` allows it, and its note says so.
    """
    if kind not in KINDS:
        raise SpecError(f"unknown interval {kind!r}; known: {', '.join(KINDS)}")
    on_policy = sampler.independent and sampler.on_policy and rollouts.initial_episodes == 0
    weighted = estimator.name == "ois"  # given the past, each w·g has mean v: a martingale
    if kind == "auto" and (weighted or (on_policy and estimator.name == "mc")):
        kind = "t"
    if kind in IID_KINDS:
        estimate = estimator(rollouts, policy)
        if rollouts.episodes < 3:
            return estimate, TOO_FEW
        return estimate, _iid_interval(rollouts, sampler, estimator.name, confidence, kind, force, bounds, on_policy)
    if sampler.name in ("off", "bpg"):
        why = f"{estimator.name} on {sampler.name} data: the behaviour is not near π_e; ois has an interval there"
        return estimator(rollouts, policy), NoInterval(why)
    if rollouts.episodes < 3:
        return estimator(rollouts, policy), TOO_FEW
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
