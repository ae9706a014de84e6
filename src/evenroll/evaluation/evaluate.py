"""The one call most people need: what is this policy worth?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenroll.collection.rollouts import Rollouts
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import SpecError
from evenroll.estimators.table import EstimatorLike, get_estimator
from evenroll.evaluation.interruption import interrupted, seen, with_data
from evenroll.evaluation.looking import Look, report
from evenroll.evaluation.result import Evaluation
from evenroll.evaluation.sources import Source
from evenroll.evaluation.workers import any_source
from evenroll.intervals.balanced import IID_KINDS, check_kind
from evenroll.intervals.independent import Interval, NoInterval
from evenroll.intervals.outcomes import within
from evenroll.intervals.stopping import MOST_EPISODES, Target, look_until
from evenroll.samplers.table import SamplerLike
from evenroll.text.calls import written_call
from evenroll.text.specs import share, whole_number

DEFAULT_SAMPLER, DEFAULT_ESTIMATOR, DEFAULT_EPISODES = "auto", "score", 100
SHOW_EVERY = 0.2  # seconds between two reports of progress; a choice
LOOK_AFTER = 20  # times as long as the last look took: progress costs 5 % at most
FEWEST_TO_SHOW = 3  # episodes that an interval needs; before that, progress has no result to show
MOST = 10**15  # episodes or steps; a run with more would never end


@dataclass(frozen=True)
class Progress:
    """How far collecting has come.

    The result is that of the last look at the data, a little while ago. It is None before the first look.
    """

    episodes: int
    total: int
    steps: int
    seconds: float
    result: Evaluation | None


@dataclass(frozen=True)
class Budget:
    """How much to collect: a number of episodes or of steps, or until the interval is as narrow as the target says."""

    episodes: int | None
    steps: int | None
    target: Target | None

    @classmethod
    def of(cls, episodes: int | None, steps: int | None, half_width: float | str | None) -> Budget:
        """The budget that the user asks for. It is the default where nothing is said."""
        target = None if half_width is None else Target.parse(half_width)
        if episodes is not None and steps is not None:
            raise SpecError("give either episodes or steps, not both")
        if target is not None and steps is not None:
            raise SpecError("half-width counts episodes; give episodes as the most to collect, not steps")
        if episodes is None and steps is None:
            episodes = DEFAULT_EPISODES if target is None else MOST_EPISODES
        for what, n in (("episodes", episodes), ("steps", steps)):
            if n is not None and whole_number(what, n, 1) > MOST:
                raise SpecError(f"{what} must be from 1 to {MOST:,}, not {n}")
        return cls(episodes, steps, target)


def evaluate(
    domain: Any,
    policy: Any = None,
    *,
    sampler: SamplerLike = DEFAULT_SAMPLER,
    estimator: EstimatorLike | None = None,
    episodes: int | None = None,
    steps: int | None = None,
    gamma: float | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    half_width: float | str | None = None,
    interval: str = "auto",
    force_interval: bool = False,
    bounds: tuple[float, float] | None = None,
    horizon: int | None = None,
    initial: Any = None,
    deterministic: bool = False,
    resets: int | None = None,
    workers: int | None = None,
    executor: str | None = None,
    spool: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Evaluation:
    """Collect `episodes` trajectories (100 by default) or `steps` steps, and estimate the policy's value.

    domain      a domain, built in or your own, or any Gymnasium environment: an env, a vector env, Stable-Baselines3's
                VecEnv, an id ("FrozenLake-v1:is_slippery=false"), an EnvSpec, or a class or function that makes one
    sampler     how actions are chosen: a name or an object
    estimator   how the value is estimated: a name, an object or a function of (rollouts, policy). By default score, the
                mean with the luck of actions and starts taken out; mc, the plain mean, where a t, bca or bernstein interval
                is asked for. The plain mean stands beside it in the result.
    policy      a policy or policy file of ours, a model of Stable-Baselines3 or sb3-contrib, a torch module that
                gives a distribution or logits, a CleanRL agent, or a function of an observation that gives action
                probabilities, a distribution or an action (docs/policies.md). Built-in domains come with a policy.
    gamma       the discount. Built-in domains have their own; elsewhere it is 1 unless given.
    horizon     the number of steps after which a trajectory is cut, and counts as truncated. Built-in domains have their
                own.
    initial     data to start from: rollouts, a file of them, a data frame or a Minari dataset. New data is then collected
                so that the whole becomes on-policy.
    deterministic  take the policy's likeliest actions. Then there is nothing to balance.
    resets      how many further resets show which starts there are; no step is taken from them, and the luck of the starts
                is taken out of the estimate (docs/starts.md). By default one for every 3 steps, as long as that takes at
                most a tenth of the collecting time or 0.25 s, and none where a reset takes longer than 0.02 s, as a robot's
                does.
                With 0 there are none.
    half_width  stop as soon as the interval is this narrow: a number, or "5%" of the value. Then `episodes` is the most to
                collect (100,000 by default). The interval stays valid although it is looked at repeatedly
                (intervals/stopping.py).
    interval    auto or score; for independent trajectories also t, bca or bernstein, which needs `bounds`
    bounds      the smallest and the largest possible return, if they are known. No interval goes beyond them, and equal
                returns, which have no spread, get an interval only with them.
    workers     how many workers collect at the same time, for an environment given by its id or by a function of a module,
                and a policy given by its file or as 'module:function'. The result does not depend on how many there are
                (docs/clusters.md).
    executor    where they work: "threads", "processes", or the address of a dask scheduler
    spool       a directory in which they keep what is finished. A run that was killed goes on from there.
    progress    is called now and then while collecting

    Ctrl-C raises `evenroll.Interrupted`, a KeyboardInterrupt with `rollouts` and `result`: what had finished before it.
    Whatever else is raised once there is data (also by `progress`) has it as `rollouts`.
    """
    call = written_call("evenroll.evaluate", evaluate, locals())
    look = look_for(estimator, initial, interval, force_interval, bounds, confidence)
    budget = Budget.of(episodes, steps, half_width)
    source = any_source(
        domain, policy, sampler, gamma=gamma, seed=seed, horizon=horizon, initial=initial, deterministic=deterministic,
        resets=resets, workers=workers, executor=executor, spool=spool,
    )  # fmt: skip
    try:
        return replace(evaluate_source(source, look, budget, confidence, progress), _call=call)
    finally:
        source.close()


def look_for(
    estimator: EstimatorLike | None, initial: Any, interval: str, force: bool, bounds: tuple[float, float] | None,
    confidence: float,
) -> Look:  # fmt: skip
    """The look that the user asks for: which estimator, and which interval."""
    record = get_estimator(estimator or ("mc" if interval in IID_KINDS else DEFAULT_ESTIMATOR))
    if record.name == "wis+mc" and initial is None:
        raise SpecError("wis+mc needs initial data; use mc, ois or wis")
    if share("confidence", confidence) in (0.0, 1.0):
        raise SpecError(f"confidence must lie between 0 and 1, not {confidence}")
    return Look(record, interval, force, bounds)


def evaluate_source(
    source: Source, look: Look, budget: Budget, confidence: float, progress: Callable[[Progress], None] | None = None
) -> Evaluation:
    """Collect from a source, look at the data, and report. This is the same for every source."""
    check_kind(
        look.interval, source.sampler, look.estimator.name, initial=False, force=look.force, bounds=look.bounds
    )  # what initial data changes is told when it is looked at
    tell = None if progress is None else _Telling(source, look, budget, confidence, progress)

    def collect(episodes: int | None) -> Rollouts:
        """Collect until there are this many new episodes, or the budget's steps."""
        for done in source.collect(episodes, budget.steps, at_once=tell is None):
            if tell is not None:
                tell(done)
        return source.rollouts()

    looked_at = confidence  # the level of the last look: above the confidence where there may be several

    def see(data: Rollouts, level: float) -> tuple[float, Interval | NoInterval]:
        nonlocal looked_at
        looked_at = level
        return look.at(data, source.policy, source.sampler, level, certain=source.certain)

    known = None
    try:
        with single_threaded_blas():
            if budget.target is None:
                data = collect(budget.episodes)
            else:
                assert budget.episodes is not None
                data, value, interval = look_until(collect, see, budget.target, confidence, budget.episodes)
                known = value, within(interval, look.bounds) if isinstance(interval, Interval) else interval
        return report(seen(source, data), look, confidence, known, looked_at)
    except KeyboardInterrupt:
        raise interrupted(source, look, confidence) from None
    except Exception as error:
        with_data(error, source)
        raise


class _Telling:
    """Tells how far collecting has come, a few times a second. Looking at the data takes a twentieth of the time at most."""

    def __init__(
        self, source: Source, look: Look, budget: Budget, confidence: float, progress: Callable[[Progress], None]
    ) -> None:
        self.source, self.look, self.confidence, self.progress = source, look, confidence, progress
        self.total = budget.episodes or budget.steps or 0
        self.started = self.shown = self.looked = time.perf_counter()
        self.cost = SHOW_EVERY
        self.result: Evaluation | None = None

    def __call__(self, done: int) -> None:
        now = time.perf_counter()
        if now - self.shown < SHOW_EVERY:
            return
        if now - self.looked > LOOK_AFTER * self.cost and self.source.episodes >= FEWEST_TO_SHOW:
            self.result = report(seen(self.source), self.look, self.confidence)
            self.looked = time.perf_counter()
            self.cost = self.looked - now
        self.shown = time.perf_counter()
        self.progress(Progress(done, self.total, self.source.steps, self.shown - self.started, self.result))
