"""How often an interval holds the true value: many runs, each with its interval, against a known value."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenroll.adapters.loading import as_domain
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.domain import Domain, Truth
from evenroll.errors import NoEstimate, SpecError
from evenroll.executors.pool import Pool, get_pool, in_order
from evenroll.intervals.balanced import estimate_with_interval
from evenroll.intervals.independent import Interval, NoInterval, binomial, student_t
from evenroll.intervals.stopping import MOST_EPISODES, Target, collect_until
from evenroll.policies import Policy
from evenroll.study.method import Method, MethodLike, get_method
from evenroll.study.trials import initial_data
from evenroll.study.true_value import truth
from evenroll.text.specs import whole_number


@dataclass(frozen=True)
class Coverage:
    """What `repeats` runs showed: how many of their intervals hold the value, and how wide the intervals are.

    episodes      the new episodes of each run; with a target half-width, the mean number at which the runs stopped
    coverage      the share of runs whose interval holds the value
    coverage_low, coverage_high  the 95 % Clopper–Pearson interval of that share
    half_width    the mean half-width over the runs
    oracle_ratio  half_width / (1.96 · std of the estimates)
    iid_ratio     half_width / mean half-width of Student's t on the same returns
    fallback      the share of runs that fell back to a wider interval
    exact         the share of runs whose regression left only rounding error
    bias          the mean error, in standard deviations of the estimate
    """

    domain: str
    method: str
    value: float
    value_se: float
    episodes: float
    confidence: float
    repeats: int
    coverage: float
    coverage_low: float
    coverage_high: float
    half_width: float
    oracle_ratio: float
    iid_ratio: float
    fallback: float
    exact: float
    bias: float

    def to_json(self) -> dict[str, Any]:
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()}


def coverage(
    domain: str | Domain,
    method: MethodLike,
    *,
    policy: Policy | None = None,
    value: float | None = None,
    episodes: int | None = None,
    repeats: int = 1000,
    confidence: float = 0.95,
    half_width: float | str | None = None,
    kind: str = "auto",
    force: bool = False,
    initial_episodes: int = 100,
    delta: float = 0.1,
    seed: int = 0,
    workers: int | None = None,
    executor: str | Pool = "threads",
    progress: Callable[[int, int], None] | None = None,
) -> Coverage:
    """Make `repeats` runs of `episodes` new episodes (512 by default), and count the intervals that hold the value.

    The result is the same for any number of workers, wherever they are.

    With `half_width`, each run stops as `evaluate` does: when its interval is narrow enough, at the latest at `episodes`.
    """
    domain = as_domain(domain)
    parsed = get_method(method, domain)
    target = None if half_width is None else Target.parse(half_width)
    episodes = episodes or (512 if target is None else MOST_EPISODES)
    seed = whole_number("seed", seed, 0)
    if episodes < 3 or repeats < 2:
        raise SpecError(f"coverage needs at least 3 episodes and 2 repeats, not {episodes} and {repeats}")
    if not 0.0 < confidence < 1.0:
        raise SpecError(f"confidence must lie between 0 and 1, not {confidence}")
    if domain.redrawn:
        raise SpecError(
            f"{domain} is drawn anew in every run and has another value in each: use a domain that stays the same"
        )
    policy = policy or domain.policy()
    domain.environment(None).check(policy)
    given = None if value is None else Truth(value, 0.0, math.nan, math.nan)
    best = given or truth(domain, policy, seed=seed, workers=workers)
    known, value_se = best.value, best.value_se

    setting = _Setting(
        domain, policy, parsed, known, episodes, confidence, target, kind, force, initial_episodes, delta, seed
    )  # fmt: skip
    pool = get_pool(executor, workers)
    rows = [_run(setting, 0)]  # a refusal and the compilation come before the pool starts
    rows += in_order(functools.partial(_run, setting), range(1, repeats), pool, progress)
    estimate, low, high, iid, fallback, exact, stopped = np.array(rows, dtype=np.float64).T
    inside = int(np.sum((low <= known) & (known <= high)))
    half = float((high - low).mean() / 2)
    spread = float(estimate.std(ddof=1))
    steady = spread <= 1e-9 * abs(known)  # if every run gives the same number, there is no oracle
    return Coverage(
        str(domain), str(parsed), known, value_se, episodes if target is None else float(stopped.mean()), confidence,
        repeats, inside / repeats,
        *binomial(inside, repeats), half,
        math.nan if steady else half / (1.96 * spread), _ratio(half, float(iid.mean())),
        float(fallback.mean()), float(exact.mean()), math.nan if steady else (float(estimate.mean()) - known) / spread,
    )  # fmt: skip


@dataclass(frozen=True)
class _Setting:
    """What the runs have in common."""

    domain: Domain
    policy: Policy
    method: Method
    value: float
    episodes: int
    confidence: float
    target: Target | None
    kind: str
    force: bool
    initial_episodes: int
    delta: float
    seed: int

    def interval(self, data: Rollouts, level: float) -> tuple[float, Interval | NoInterval]:
        method = self.method
        return estimate_with_interval(
            data, self.policy, method.sampler, method.estimator, level, kind=self.kind, force=self.force
        )


def _run(setting: _Setting, i: int) -> tuple[float, float, float, float, bool, bool, int]:
    """(estimate, low, high, Student's half-width, fell back, exact, new episodes) of the i-th run."""
    domain, policy, method, place = setting.domain, setting.policy, setting.method, (setting.seed, 21, i)
    start = None
    if method.initial:
        start = initial_data(domain, policy, place, episodes=setting.initial_episodes, delta=setting.delta)
    driver = Driver(
        policy, method.sampler, place, gamma=domain.gamma, horizon=domain.horizon, record_steps=True, initial=start,
        value=setting.value,
    )  # fmt: skip
    env, level = domain.environment(None), setting.confidence
    if setting.target is None:
        data = driver.run(env, episodes=setting.episodes)
        estimate, interval = setting.interval(data, level)
    else:
        data, estimate, interval = collect_until(driver, env, setting.interval, setting.target, level, setting.episodes)
    if not isinstance(interval, Interval):
        raise NoEstimate(f"{method} has no interval: {interval.why}")
    low, high = student_t(data.returns, level)
    new = data.episodes - data.initial_episodes
    return estimate, interval.low, interval.high, (high - low) / 2, interval.fallback, interval.exact, new


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0.0 else math.nan
