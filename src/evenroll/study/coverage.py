"""How good and how true evaluations are: many runs, each with its interval, against a known value."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from evenroll.adapters.loading import as_domain, as_environment, load_domain
from evenroll.adapters.model import as_model
from evenroll.adapters.vector_environments import as_lanes, spaces_of
from evenroll.domains.domain import Domain, Truth
from evenroll.errors import NoEstimate, SpecError
from evenroll.estimators.table import EstimatorLike, get_estimator
from evenroll.evaluation.evaluate import DEFAULT_ESTIMATOR, DEFAULT_SAMPLER
from evenroll.evaluation.looking import Look
from evenroll.executors.pool import Pool, get_pool, in_order
from evenroll.intervals.independent import binomial
from evenroll.intervals.stopping import MOST_EPISODES, Target
from evenroll.policies import Policy
from evenroll.samplers import OnPolicy
from evenroll.samplers.table import SamplerLike, get_sampler
from evenroll.study.coverage_runs import Runs, one_run
from evenroll.study.method import MADE_FOR, MethodLike, get_method
from evenroll.study.true_value import truth
from evenroll.text.specs import share, whole_number

DEFAULT_EPISODES, DEFAULT_REPEATS, DEFAULT_REPEATS_OF_ENVIRONMENTS = 512, 1000, 200
# Episodes of the truth over episodes of a run: its squared error is below a 25th of the estimate's, if that is a third of
# the mean's; a choice.
TRUTH = 80
TRIED = 3  # runs without an interval, before a method is refused that seems to have none
TRUTH_RUN = 1 << 40  # a run's number that no other run has
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Coverage:
    """What `repeats` runs showed: how many of their intervals hold the value, how wide they are, and how far they are off.

    episodes      the new episodes of each run; with a target half-width, the mean number at which the runs stopped
    steps         the mean number of new steps of a run
    value, value_se  the true value, and its standard error if it comes from a long on-policy run
    variance      the variance of one on-policy return
    coverage      the share of intervals that hold the value
    coverage_low, coverage_high  the 95 % Clopper–Pearson interval of that share, for every value within two standard
                  errors of the true one
    half_width    the mean half-width over the runs
    oracle_ratio  half_width / (1.96 · std of the estimates)
    iid_ratio     half_width / mean half-width of Student's t on the same returns
    fallback      the share of runs that fell back to a wider interval
    exact         the share of runs whose regression left only rounding error
    without       the share of runs that had no interval
    ratio         the mean squared error, relative to that of the mean of as many on-policy returns (variance / episodes)
    ratio_se      its standard error
    says, worth   how many on-policy episodes an episode is worth: by the intervals (the median, infinite if most runs know
                  the value exactly), and by the error (1/ratio)
    bias          the mean error, in standard deviations of the estimate
    bias_se       its standard error, with that of the true value
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
    bias_se: float = math.nan
    without: float = 0.0
    variance: float = math.nan
    ratio: float = math.nan
    ratio_se: float = math.nan
    says: float = math.nan
    worth: float = math.nan
    steps: float = math.nan
    estimator: str = ""

    def to_json(self) -> dict[str, Any]:
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()}


def coverage(
    domain: str | Domain, method: MethodLike, *, episodes: int | None = None, repeats: int = DEFAULT_REPEATS, **settings: Any
) -> Coverage:
    """What `repeats` runs of one method on a domain show. See `coverage_table` for the other settings.

    The result is the same for any number of workers, wherever they are.
    """
    found = get_method(method, as_domain(domain))
    sampler = f"init+{found.sampler}" if found.initial else found.sampler
    rows = coverage_table(
        domain, sampler=sampler, estimators=(found.estimator,), episodes=episodes, repeats=repeats,
        **settings,
    )  # fmt: skip
    return rows[0]


def coverage_table(
    where: Any,
    policy: Any = None,
    *,
    sampler: SamplerLike = DEFAULT_SAMPLER,
    estimators: Sequence[EstimatorLike] | None = None,
    episodes: int | Sequence[int] | None = None,
    repeats: int | None = None,
    value: float | None = None,
    truth_episodes: int | None = None,
    confidence: float = 0.95,
    half_width: float | str | None = None,
    kind: str = "auto",
    force: bool = False,
    gamma: float | None = None,
    horizon: int | None = None,
    deterministic: bool = False,
    resets: int | None = None,
    initial_episodes: int = 100,
    delta: float = 0.1,
    seed: int = 0,
    workers: int | None = None,
    executor: str | Pool = "threads",
    progress: Progress | None = None,
) -> list[Coverage]:
    """Evaluate a policy `repeats` times, and tell how good the estimates and how true their intervals are.

    where       a domain, or anything that `evaluate` takes as an environment. Runs of a domain are spread over the workers;
                those of an environment come one after the other.
    sampler     as for `evaluate`; on a domain also init+SAMPLER, which starts from off-policy data
    estimators  by default the one that `evaluate` uses, and mc beside it
    episodes    of each run, one number or several (512 by default, 64 for an environment)
    repeats     1,000 by default, 200 for an environment
    value       the true value, if you know it. Otherwise it is the domain's own, or the mean of `truth_episodes` on-policy
                episodes, 80 times as many as the largest run has by default.
    half_width  each run stops as `evaluate` does: when its interval is narrow enough, at the latest at `episodes`

    One row for each number of episodes and estimator.
    """
    domain = load_domain(where) if isinstance(where, str) else where if isinstance(where, Domain) else None
    target = None if half_width is None else Target.parse(half_width)
    sizes = _sizes(episodes, target, domain is not None)
    repeats = repeats or (DEFAULT_REPEATS if domain is not None else DEFAULT_REPEATS_OF_ENVIRONMENTS)
    if min(sizes) < 3 or repeats < 2:
        raise SpecError(f"coverage needs at least 3 episodes and 2 repeats, not {min(sizes)} and {repeats}")
    if share("confidence", confidence) in (0.0, 1.0):
        raise SpecError(f"confidence must lie between 0 and 1, not {confidence}")
    initial = isinstance(sampler, str) and sampler.startswith("init+")
    made = get_sampler(
        sampler.removeprefix("init+") if isinstance(sampler, str) else sampler, domain.paper if domain else {}, initial
    )
    names = estimators or (MADE_FOR.get(made.name, DEFAULT_ESTIMATOR), "mc")
    looks = tuple(Look(get_estimator(name), kind, force) for name in dict.fromkeys(names))
    settings = {
        "sampler": made, "looks": looks, "sizes": sizes, "confidence": confidence, "target": target, "initial": initial,
        "gamma": gamma, "horizon": horizon, "deterministic": deterministic, "resets": resets,
        "initial_episodes": initial_episodes, "delta": delta, "seed": whole_number("seed", seed, 0),
    }  # fmt: skip
    written = f"init+{made}" if initial else str(made)
    given = None if value is None else Truth(value, 0.0, math.nan, math.nan)
    if domain is not None:
        best, rows = _of_domain(
            domain, policy, settings, given, repeats, truth_episodes, get_pool(executor, workers), progress
        )
        name = str(domain)
    else:
        if initial:
            raise SpecError("init+ samplers are for domains: their initial data is drawn from the domain")
        name, best, rows = _of_environment(where, policy, settings, given, repeats, truth_episodes, progress)
    return [
        _summary(rows[:, i, j], name, f"{written}/{look.estimator.name}", look.estimator.name, best, confidence)
        for i in range(rows.shape[1])
        for j, look in enumerate(looks)
    ]


def _sizes(episodes: int | Sequence[int] | None, target: Target | None, compiled: bool) -> tuple[int, ...]:
    if episodes is None:
        return (MOST_EPISODES if target is not None else DEFAULT_EPISODES if compiled else 64,)
    given = (episodes,) if isinstance(episodes, int) else tuple(episodes)
    sizes = tuple(sorted({whole_number("episodes", n, 1) for n in given}))
    if not sizes or (target is not None and len(sizes) > 1):
        raise SpecError("with a half-width, episodes is the most to collect: give one number")
    return sizes


def _of_domain(
    domain: Domain, policy: Policy | None, settings: dict[str, Any], given: Truth | None, repeats: int,
    truth_episodes: int | None, pool: Pool, progress: Progress | None,
) -> tuple[Truth, np.ndarray]:  # fmt: skip
    """(the true value, what the runs showed [repeats, sizes, looks, columns])."""
    if domain.redrawn:
        raise SpecError(
            f"{domain} is drawn anew in every run and has another value in each: use a domain that stays the same"
        )
    policy = policy or domain.policy()
    domain.environment(None).check(policy)
    best = given or truth(domain, policy, episodes=truth_episodes or 1_000_000, seed=settings["seed"])
    runs = Runs(domain, policy, **settings)
    rows = [one_run(runs, 0)]  # a refusal and the compilation come before the pool starts
    _refuse_without(runs, rows)
    rows += in_order(functools.partial(one_run, runs), range(1, repeats), pool, progress)
    return best, np.array(rows)


def _of_environment(
    where: Any, policy: Any, settings: dict[str, Any], given: Truth | None, repeats: int, truth_episodes: int | None,
    progress: Progress | None,
) -> tuple[str, Truth, np.ndarray]:  # fmt: skip
    """The same with the environment's name. The true value comes from a long on-policy run, unless it is given."""
    if policy is None:
        raise SpecError("an environment needs a policy")
    env = as_environment(where)
    try:
        if as_lanes(env) is not None:
            raise SpecError("coverage takes a single environment, not a vector of them")
        model = as_model(policy, *spaces_of(env), deterministic=settings["deterministic"])
        runs = Runs(env, model, **settings)
        most = max(runs.sizes)
        long = whole_number("truth", truth_episodes or TRUTH * (most if runs.target is None else 100), 3)
        done, total = 0, repeats * most * (1 if runs.target is None else len(runs.looks)) + (0 if given else long)

        def tell(more: int) -> None:
            nonlocal done
            done += more
            if progress is not None:
                progress(done, total if runs.target is None else max(total, done))

        mean = Look(get_estimator("mc"))
        known = replace(runs, sampler=OnPolicy(), looks=(mean,), sizes=(long,), target=None, resets=0)
        best = given or _truth_of(one_run(known, TRUTH_RUN, tell)[0, 0])
        rows: list[np.ndarray] = []
        for i in range(repeats):
            rows.append(one_run(runs, i, tell))
            if len(rows) == TRIED:
                _refuse_without(runs, rows)
        return runs.source(0).name, best, np.array(rows)
    finally:
        if env is not where:
            env.close()


def _truth_of(row: np.ndarray) -> Truth:
    value, variance, episodes, steps = row[0], row[7], row[6], row[8]
    return Truth(float(value), math.sqrt(variance / episodes), float(steps / episodes), float(variance))


def _refuse_without(runs: Runs, rows: list[np.ndarray]) -> None:
    """Raise if a way to look has had no interval in any run so far: it will have none in the others."""
    for j, look in enumerate(runs.looks):
        if all(np.isnan(row[:, j, 1]).all() for row in rows):
            data = runs.source(0)
            for _ in data.collect(max(runs.sizes) if runs.target is None else 64, None, at_once=True):
                pass
            interval = look.at(data.rollouts(), data.policy, data.sampler, runs.confidence, data.certain)[1]
            raise NoEstimate(f"{runs.sampler}/{look.estimator.name} has no interval: {interval}")


def _summary(rows: np.ndarray, domain: str, method: str, estimator: str, best: Truth, confidence: float) -> Coverage:
    """What the runs [repeats, columns] showed."""
    there = ~np.isnan(rows[:, 1])
    estimate, low, high, iid, fallback, exact, stopped, variances, steps = rows.T
    repeats, with_one, known = len(rows), int(there.sum()), best.value
    near = (known, known - 2 * best.value_se, known + 2 * best.value_se)
    inside, *others = (int(np.sum((low[there] <= v) & (v <= high[there]))) for v in near)
    half, spread = float((high - low)[there].mean() / 2), float(estimate.std(ddof=1))
    steady = spread <= 1e-9 * abs(known)  # if every run gives the same number, there is no oracle
    n, variance = float(stopped.mean()), best.variance if math.isfinite(best.variance) else float(variances.mean())
    squares = (
        (np.square(estimate - known) - best.value_se**2) / (variance / n) if variance > 0.0 else np.full(repeats, np.nan)
    )
    halves = np.where(high > low, (high - low) / 2, np.nan)
    says = np.where(exact == 1.0, np.inf, (1.96 * np.sqrt(variances) / halves) ** 2 / stopped)
    ratio = float(squares.mean())
    return Coverage(
        domain=domain, method=method, estimator=estimator, value=known, value_se=best.value_se, episodes=n,
        steps=float(steps.mean()), confidence=confidence, repeats=repeats, variance=variance,
        coverage=inside / max(with_one, 1),
        coverage_low=binomial(min(inside, *others), with_one)[0],
        coverage_high=binomial(max(inside, *others), with_one)[1],
        half_width=half, oracle_ratio=math.nan if steady else half / (1.96 * spread),
        iid_ratio=half / float(iid.mean()) if iid.mean() > 0.0 else math.nan,
        fallback=float(fallback.mean()), exact=float(exact.mean()), without=1.0 - with_one / repeats,
        bias=math.nan if steady else (float(estimate.mean()) - known) / spread,
        bias_se=math.nan if steady else math.sqrt(1.0 / repeats + (best.value_se / spread) ** 2),
        ratio=ratio, ratio_se=float(squares.std(ddof=1)) / math.sqrt(repeats),
        says=math.nan if np.isnan(says).all() else float(np.nanmedian(says)),
        worth=1.0 / ratio if ratio > 0.0 else math.nan,
    )  # fmt: skip
