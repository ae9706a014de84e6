"""How many episodes a precision will take, and how long, told by a short pilot.

The half-width of n episodes is about t·√(left(n)·Var/n), where left(n) is the share of the returns' variance that an
estimate from n episodes leaves. The plain mean leaves everything. The regression behind `score` leaves less the more
episodes it has learnt from, and a pilot shows how that goes on: left(n) = a + b/n, through what its whole and its two halves
leave. What is learnt from this few episodes is noisy, so a is not taken to be below half of what the pilot leaves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import SpecError
from evenroll.estimators.score_regression import score_regression
from evenroll.estimators.table import EstimatorLike
from evenroll.evaluation.evaluate import DEFAULT_SAMPLER, look_for
from evenroll.evaluation.interruption import seen
from evenroll.evaluation.looking import Look, Seen
from evenroll.evaluation.sources import Source, source_of
from evenroll.intervals.independent import Interval, NoInterval, student_t
from evenroll.intervals.stopping import MARGIN, MOST_PLANNED, Target, episodes_needed, for_few, spending
from evenroll.policies import Policy
from evenroll.samplers.table import SamplerLike
from evenroll.text.numbers import with_interval
from evenroll.text.specs import whole_number

PILOT, FEWEST = 32, 8  # episodes of the pilot: by default, and at least
TIMED = 4  # a quarter of the pilot's episodes is run on-policy too, to see how long they take
LEAST_LEFT = 0.5  # of what the pilot leaves, so much at least is left by any number of episodes; a choice


@dataclass(frozen=True)
class Need:
    """What a precision takes.

    episodes  how many, with the range `low` … `high` that the pilot leaves open (95 %)
    steps     environment steps
    seconds   how long, at the pilot's speed
    """

    episodes: float
    low: float
    high: float
    steps: float
    seconds: float

    def __str__(self) -> str:
        return f"{_count(self.episodes)} episodes ({_count(self.low)} … {_count(self.high)}), {_duration(self.seconds)}"


@dataclass(frozen=True)
class Plan:
    """What a half-width takes, as a pilot shows it.

    half_width   the half-width that is asked for
    value, low, high  what the pilot says of the value; low and high are None if it has no interval
    evenroll     what `evaluate(episodes=…)` needs for it
    stopping     about how many episodes `evaluate(half_width=…)` takes, which looks several times and pays for that
    on_policy    what the plain mean of independent on-policy episodes needs
    why          why nothing can be said, if so
    episodes, steps  of the pilot
    """

    domain: str
    policy: str
    sampler: str
    estimator: str
    confidence: float
    half_width: float
    value: float
    low: float | None
    high: float | None
    episodes: int
    steps: int
    evenroll: Need | None
    on_policy: Need | None
    stopping: float | None
    why: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        if self.evenroll is None or self.on_policy is None:
            return f"no plan: {self.why}"
        return f"± {self.half_width:.3g} takes {self.evenroll}; on-policy sampling {self.on_policy}"

    def in_words(self) -> str:
        pilot = f"A pilot of {self.episodes} episodes gives {with_interval(self.value, self.low, self.high)}."
        if self.evenroll is None or self.on_policy is None or self.stopping is None:
            return f"{pilot} What ± {self.half_width:.3g} takes cannot be told: {self.why}."
        text = f"{pilot} For ± {self.half_width:.3g} at {100 * self.confidence:g} %, evenroll needs about {self.evenroll}. "
        text += f"The plain mean of on-policy episodes needs about {self.on_policy}. "
        if self.evenroll.episodes <= self.episodes:
            text += "The pilot alone is nearly enough. "
        return text + (
            f"With --half-width, which looks several times and pays for it, it stops after about {_count(self.stopping)}."
        )


def plan(
    domain: Any,
    policy: Any = None,
    *,
    half_width: float | str,
    sampler: SamplerLike = DEFAULT_SAMPLER,
    estimator: EstimatorLike | None = None,
    pilot: int = PILOT,
    gamma: float | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    horizon: int | None = None,
    deterministic: bool = False,
    resets: int | None = None,
    bounds: tuple[float, float] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """How many episodes, and how long, a half-width takes: with evenroll, and with plain on-policy sampling.

    half_width  a number, or "5%" of the value
    pilot       how many episodes are run to tell, 32 by default; a quarter as many are run on-policy beside them, to see how
                long those take. What is predicted from fewer is rougher.

    Everything else is as for `evaluate`. A pilot says what it takes within about a third.
    """
    target, look = Target.parse(half_width), look_for(estimator, None, "auto", False, bounds, confidence)
    if whole_number("pilot", pilot, 1) < FEWEST:
        raise SpecError(f"a pilot needs at least {FEWEST} episodes, not {pilot}")
    settings: dict[str, Any] = {
        "gamma": gamma,
        "seed": seed,
        "horizon": horizon,
        "initial": None,
        "deterministic": deterministic,
    }
    total, done = pilot + max(pilot // TIMED, 2), 0

    def collect(source: Source, episodes: int) -> float:
        """Collect, and tell how long an episode took. The first half may have waited for a compiler, and does not count."""
        nonlocal done
        started = time.perf_counter()
        for goal in (episodes // 2, episodes):
            before, started = source.episodes, time.perf_counter()
            for now in source.collect(goal, None, at_once=False):
                if progress is not None:
                    progress(done + now, total)
        took = time.perf_counter() - started
        done += episodes
        return took / max(source.episodes - before, 1)

    with single_threaded_blas():
        source = source_of(domain, policy, sampler, resets=resets, **settings)
        try:
            seconds = collect(source, pilot)
            this = seen(source)
        finally:
            source.close()
        plain = source_of(domain, policy, "os", resets=0, **settings)
        try:
            seconds_plain = collect(plain, total - pilot)
        finally:
            plain.close()
        return predict(this, look, target, confidence, seconds, seconds_plain)


def predict(
    this: Seen, look: Look, target: Target, confidence: float, seconds: float = math.nan, seconds_plain: float = math.nan
) -> Plan:
    """The plan that a pilot's data suggests."""
    data = this.data
    value, interval = this.look(look, confidence)
    goal, n = target.of(value), data.episodes
    about = (this.name, this.described, str(this.sampler), look.estimator.name, confidence, goal, value)
    if isinstance(interval, NoInterval) or goal <= 0.0:
        why = interval.why if isinstance(interval, NoInterval) else "the value is 0, and a share of it is 0"
        return Plan(*about, None, None, n, data.steps, None, None, None, why)
    learns = look.estimator.name in ("mc", "score") and interval.kind == "score" and not interval.exact
    curve = learning_curve(data, this.policy) if learns else None
    relative = (
        2.0 * interval.half_width / 1.96 / abs(value) if target.relative else 0.0
    )  # 2 σ(log value): the goal moves too
    error = math.hypot(_error_of_log_variance(data.returns), relative)
    length = data.steps / n
    ours = _with_curve(replace(interval, skewness=None), n, confidence, goal, confidence, curve)
    independent = Interval(*student_t(data.returns, confidence), confidence, "t")
    level = 1.0 - (1.0 - confidence) * spending(1)
    theirs = episodes_needed(independent, n, confidence, goal, confidence)
    stopped = MARGIN * _with_curve(for_few(interval, value, n), n, confidence, goal, level, curve)
    return Plan(
        *about, interval.low, interval.high, n, data.steps,
        _need(ours, error, length, seconds), _need(theirs, error, length, seconds_plain), stopped,
    )  # fmt: skip


def learning_curve(data: Rollouts, policy: Policy | None) -> tuple[float, float]:
    """(a, b) with left(n) = a + b/n, relative to what these n episodes leave: a + b/n = 1."""
    n = data.episodes
    half = data.prefix(int(data.ends[n // 2 - 1]) - data.initial_steps)
    half = half if half.resets is None else replace(half, resets=half.resets[: max(len(half.resets) // 2, 2)], critic=None)
    whole, part = (max(1.0 - score_regression(d, policy).explained, 0.02) for d in (data, half))
    gain = min(max(part / whole - 1.0, 0.0), 1.0 - LEAST_LEFT)
    return 1.0 - gain, gain * n


def _with_curve(
    interval: Interval, n: int, level: float, goal: float, goal_level: float, curve: tuple[float, float] | None
) -> float:
    """The episodes that make the interval as narrow as the goal, if what it leaves follows the curve."""
    needed = episodes_needed(interval, n, level, goal, goal_level)
    if curve is None:
        return needed
    a, b = curve
    for _ in range(30):
        left = max(a + b / max(needed, 3.0), 0.0)
        needed = episodes_needed(interval, n, level, goal / math.sqrt(left), goal_level)
    return needed


def _error_of_log_variance(returns: np.ndarray) -> float:
    """The standard error of log s²: √((m₄/m₂² − 1)/n), at least that of a normal distribution."""
    apart = returns - returns.mean()
    second = float(np.square(apart).mean())
    kurtosis = float((apart**4).mean()) / second**2 if second > 0.0 else 3.0
    return math.sqrt(max(kurtosis - 1.0, 2.0) / len(returns))


def _need(episodes: float, error: float, length: float, seconds: float) -> Need:
    factor = math.exp(1.96 * error)
    low, high = episodes / factor, min(episodes * factor, MOST_PLANNED)
    return Need(episodes, low, high, episodes * length, episodes * seconds)


def _count(x: float) -> str:
    return f"{float(f'{x:.2g}'):,.0f}"


def _duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "some time"
    for size, name in ((86_400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {name}"
    return f"{seconds:.2g} s"
