"""One look at the data: the estimate with its interval, and the whole report."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from evenroll.collection.balance import Divergence
from evenroll.collection.rollouts import Rollouts
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import NoEstimate, SpecError
from evenroll.estimators import Estimator, get_estimator
from evenroll.estimators.imbalance import beyond_balance, imbalance
from evenroll.estimators.importance import (
    effective_sample_size,
    largest_weight,
    trajectory_log_weights,
    weights_that_do_not_fit,
)
from evenroll.estimators.sampling_error import gradient_sampling_error, kl_sampling_error
from evenroll.estimators.score_regression import ScoreRegression, score_regression
from evenroll.evaluation.noise import noise_budget, told_apart
from evenroll.evaluation.result import Evaluation, Quantity
from evenroll.intervals.balanced import estimate_with_interval
from evenroll.intervals.independent import Interval, NoInterval
from evenroll.intervals.outcomes import as_far_as_seen, two_values, within
from evenroll.policies import External, Policy
from evenroll.samplers import Sampler

MEAN = get_estimator("mc")
LEAST_SPREAD = 1e-140  # of returns, in their own unit: the squares of less lose their digits, and in the end are 0
WORTH_TELLING = 0.2  # a bias of a fifth of the standard error costs a 95 % interval half a percent of coverage; a choice


@dataclass(frozen=True)
class Look:
    """How to look at data: which estimator, and which interval.

    interval  auto, score, t, bca or bernstein
    force     allow an interval for independent trajectories although these are not independent
    bounds    the smallest and the largest possible return, if they are known; bernstein needs them
    """

    estimator: Estimator
    interval: str = "auto"
    force: bool = False
    bounds: tuple[float, float] | None = None

    def at(
        self,
        data: Rollouts,
        policy: Policy | None,
        sampler: Sampler,
        confidence: float,
        certain: bool = False,
        fit: ScoreRegression | None = None,
        away: Callable[[], str | None] | None = None,
    ) -> tuple[float, Interval | NoInterval]:
        """The estimate, and the interval that belongs to it or the reason why there is none.

        certain  whether the environment is known to leave nothing to chance, now and ever
        fit      the score regression of the data, if it is at hand already
        away     what the guard says of the data (`runs_away`), if somebody has asked it already
        """
        estimator = self.estimator
        if policy is None and estimator.name not in ("mc", "score"):
            raise SpecError(
                f"the policy has no action probabilities that are known: there are no {estimator.name} estimates, only mc "
                "and score"
            )
        if policy is None:  # its initial data is as independent as the rest: `see` takes none with other actions
            data = replace(data, initial_episodes=0, initial_steps=0)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is told below, in words
            value, interval = estimate_with_interval(
                data, policy, sampler, estimator, confidence, kind=self.interval, force=self.force, bounds=self.bounds,
                fit=fit,
            )  # fmt: skip
        if not math.isfinite(value):
            raise NoEstimate(f"the estimate is {value}: returns of this size overflow; scale the rewards")
        unfit = beyond_floats(interval, data.returns) if isinstance(interval, Interval) else None
        if unfit is not None:
            return value, NoInterval(unfit)
        if isinstance(interval, Interval) and estimator.name == "ois":
            unfit = weights_that_do_not_fit(trajectory_log_weights(data))
            if unfit is not None:
                return value, NoInterval(unfit)
        if isinstance(interval, Interval) and interval.exact and not certain:
            interval = within(as_far_as_seen(interval, data.returns, confidence), self.bounds)
        if isinstance(interval, Interval) and interval.kind == "score" and policy is not None:
            interval = _allowing_for_initial_data(interval, data, policy, self.bounds)
        if isinstance(interval, Interval) and interval.kind == "score":
            guard = runs_away(data, policy, sampler) if away is None else away()
            if guard is not None:
                return value, NoInterval(guard)
        return value, interval


def beyond_floats(interval: Interval, values: np.ndarray) -> str | None:
    """Why floating point has no interval for these returns, or differences of returns; None if it has."""
    if not math.isfinite(interval.high - interval.low):
        return "returns of this size overflow in their squares; scale the rewards"
    if 0.0 < float(np.ptp(values)) < LEAST_SPREAD:
        return "returns that differ so little vanish in their squares; scale the rewards"
    return None


def _allowing_for_initial_data(
    interval: Interval, data: Rollouts, policy: Policy, bounds: tuple[float, float] | None
) -> Interval:
    """The interval, widened by what initial data of another policy may do to the mean although it was balanced."""
    shift = beyond_balance(data, policy) * float(data.returns.std())
    if shift <= 0.0:
        return interval
    found = (
        f"the initial data was collected by another policy, and the interval allows {shift:.2g} for what balancing does not "
        "make up for; without that data it may be narrower"
    )
    note = found if interval.note is None else f"{interval.note}; {found}"
    wider = replace(interval, low=interval.low - shift, high=interval.high + shift, note=note, fallback=True)
    return within(wider, bounds)


def runs_away(data: Rollouts, policy: Policy | None, sampler: Sampler) -> str | None:
    """The guard: what to say if a sampler left its actions farther from balance than chance would have; None if it did not.

    How far the behaviour was from the policy does not tell. A sampler that corrects itself may be far from it at every step,
    and its data closer to balance for that (docs/experiments-auto.md, "The guard"). Data of one's own to start from may be
    off balance for other reasons, and samplers that do not aim at balance are not judged by it.
    """
    if policy is None or sampler.independent or sampler.name == "bpg" or data.initial_episodes or data.steps == 0:
        return None
    found = imbalance(data, policy)
    if not found.more_than_chance:
        return None
    instead = "use --sampler os" if sampler.name == "auto" else "use auto, or a smaller step size"
    return (
        f"{sampler} runs away from the policy: its actions are {found.excess:.2g} times as far from balance as on-policy "
        f"sampling leaves them: {instead}"
    )


@dataclass(frozen=True)
class Seen:
    """What a report is about: data, and how it was collected.

    remark     what to know of the policy, such as why nothing was balanced
    certain    whether the environment is known to leave nothing to chance
    open_episodes  how many episodes had begun and not ended when the data was looked at, so that they do not count
    no_resets  why there are no further resets, or fewer than were asked for
    limit      the number of steps that no episode can exceed, if there is one that is known
    """

    data: Rollouts
    policy: Policy | None
    sampler: Sampler
    divergence: Divergence
    described: str
    name: str
    seed: int
    remark: str | None = None
    warnings: tuple[str, ...] = ()
    certain: bool = False
    open_episodes: int = 0
    no_resets: str | None = None
    limit: int | None = None

    @functools.cached_property
    def fit(self) -> ScoreRegression | None:
        """The score regression of the data, once for all that looks at it; None if there are too few episodes."""
        return None if self.data.episodes < 3 else score_regression(self.data, self.policy)

    @functools.cached_property
    def away(self) -> str | None:
        """What the guard says of the data, once for all that looks at it."""
        return runs_away(self.data, self.policy, self.sampler)

    def look(self, look: Look, confidence: float) -> tuple[float, Interval | NoInterval]:
        return look.at(self.data, self.policy, self.sampler, confidence, self.certain, self.fit, lambda: self.away)


def report(
    seen: Seen, look: Look, confidence: float, known: tuple[float, Interval | NoInterval] | None = None,
    level: float | None = None,
) -> Evaluation:  # fmt: skip
    """The whole record of an evaluation.

    known  its value and interval, if they were looked at already
    level  that of the last of several looks, when a narrow interval decided when to stop: it is above the confidence, so
           that all looks together keep it, and the other means and their intervals have to keep it as well
    """
    level = confidence if level is None else level
    data, policy, divergence, estimator = seen.data, seen.policy, seen.divergence, look.estimator
    with single_threaded_blas(), np.errstate(over="ignore", invalid="ignore"):  # what overflows is told in words
        value, interval_or_reason = known or seen.look(look, confidence)
        interval = interval_or_reason if isinstance(interval_or_reason, Interval) else None
        log_weights = None if estimator.log_weights is None or policy is None else estimator.log_weights(data, policy)
        plain = (value, interval_or_reason) if estimator.name == "mc" else seen.look(replace(look, estimator=MEAN), level)
        varies = data.episodes > 0 and float(np.ptp(data.returns)) > 0.0  # equal returns have no variance to share
        budget = noise_budget(seen.fit, data.episodes) if varies else None
        if budget is not None:
            budget = told_apart(budget, data, policy, seen.certain)
        return Evaluation(
            value=value,
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            confidence=confidence,
            why=interval_or_reason.why if isinstance(interval_or_reason, NoInterval) else None,
            interval=None if interval is None else interval.kind,
            note=None if interval is None else interval.note,
            fallback=interval is not None and interval.fallback,
            exact=interval is not None and interval.exact,
            on_policy_episodes=None if interval is None else on_policy_episodes(data, interval),
            episodes=data.episodes,
            steps=data.steps,
            terminated=int(data.terminated.sum()),
            truncated=data.truncated,
            unfinished=data.unfinished,
            sampler=str(seen.sampler),
            estimator=estimator.name,
            domain=seen.name,
            gamma=data.gamma,
            seed=seen.seed,
            kl=None if policy is None or isinstance(policy, External) else kl_sampling_error(data, policy),
            gradient=None if policy is None else gradient_sampling_error(data, policy),
            behavior_kl=divergence.kl,
            behavior_largest=divergence.largest,
            runs_away=seen.away is not None,
            effective_sample_size=None if log_weights is None else effective_sample_size(log_weights),
            largest_weight=None if log_weights is None else largest_weight(log_weights),
            policy=seen.described,
            action_share=None if budget is None else budget.actions,
            remark=seen.remark,
            quantities=_quantities(seen, level),
            warnings=(*seen.warnings, *left_out(data, seen.open_episodes)),
            mean=_quantity(*plain),
            resets=0 if data.resets is None else len(data.resets),
            no_resets=seen.no_resets,
            noise=budget,
            rollouts=data,
            _looked=(seen, look),
        )


def on_policy_episodes(data: Rollouts, found: Interval) -> float | None:
    """(z σ/h)²: the number of episodes n at which z σ/√n is the half-width h. σ is the returns' standard deviation.

    Of an interval that was widened towards a long tail, h is what it had been before: on-policy intervals want it as well.
    Returns of two values whose interval is that of independent ones are worth as many at most: with a dozen episodes the
    exact interval of a share is narrower than the normal one.
    """
    half = found.half_width / (1.0 + found.tail / 2.0)
    if half <= 0.0 or not math.isfinite(half):
        return None
    z = NormalDist().inv_cdf(0.5 + found.confidence / 2)
    worth = float((z * data.returns.std(ddof=1) / half) ** 2)
    as_independent = found.fallback and data.initial_episodes == 0 and two_values(data.returns) is not None
    return min(worth, float(data.episodes)) if as_independent else worth


def _quantity(value: float, interval: Interval | NoInterval) -> Quantity:
    low, high = (interval.low, interval.high) if isinstance(interval, Interval) else (None, None)
    return Quantity(value, low, high)


def left_out(data: Rollouts, episodes: int) -> tuple[str, ...]:
    """What to say of episodes side by side that had not ended when somebody looked; nothing where they hardly matter.

    At any moment a long episode is more likely to be open than a short one. By renewal theory, m open episodes take
    (m − 1) Cov(G, T) / (n E[T]) from the mean of the n others. A single one takes nothing to this order: when an episode
    lasts long, fewer others have ended, and the two effects on their mean cancel.
    """
    if episodes < 2 or data.episodes < 3:
        return ()
    together = np.cov(data.returns, data.lengths)
    error = math.sqrt(float(together[0, 0]) / data.episodes)
    leaning = (episodes - 1) * float(together[0, 1]) / float(data.lengths.mean()) / data.episodes
    if not abs(leaning) > WORTH_TELLING * error:
        return ()
    return (
        f"{episodes} episodes that had not ended are left out, and long ones are left out more often than short ones: the "
        f"value is too {'low' if leaning > 0.0 else 'high'} by about {abs(leaning):.2g} for that; let every lane finish the "
        "same number of episodes",
    )


def _quantities(seen: Seen, confidence: float) -> dict[str, Quantity]:
    """Other means over the same trajectories. Each is the undiscounted return of other rewards (`other_rewards`)."""
    data = seen.data
    known = seen.limit is not None and data.episodes > 0 and 1 < data.lengths.max() <= seen.limit
    longest = float(seen.limit) if known and seen.limit is not None else math.inf
    possible = {"length": (1.0, longest), "success": (0.0, 1.0)}  # what a quantity can be at all
    result: dict[str, Quantity] = {}
    done: list[tuple[np.ndarray, str]] = []
    for name, rewards in other_rewards(data).items():
        same = next((other for before, other in done if np.array_equal(before, rewards)), None)
        if same is not None and name != "success":  # if the reward is 1 a step, the return is the length
            low, high = result[same].low, result[same].high
            if low is not None and high is not None:
                result[name] = Quantity(result[same].value, max(low, possible[name][0]), min(high, possible[name][1]))
                continue
        owner = np.repeat(np.arange(data.episodes), data.lengths)
        returns = np.bincount(owner, rewards[: len(owner)], minlength=data.episodes)
        variant = replace(seen, data=replace(data, gamma=1.0, returns=returns, rewards=rewards))
        try:
            value, interval = variant.look(Look(MEAN, bounds=possible.get(name)), confidence)
        except NoEstimate:
            continue
        if isinstance(interval, Interval) and interval.exact:  # the mean of a few episodes is then off by what is known
            value = (interval.low + interval.high) / 2
        result[name] = _quantity(value, interval)
        done.append((rewards, name))
    return result


def other_rewards(data: Rollouts) -> dict[str, np.ndarray]:
    """The rewards of each quantity.

    return   the rewards themselves, if γ < 1
    length   1 at every step
    success  1 at the last step of each trajectory that succeeded
    """
    rewards = data.column("rewards")
    result = {"return": rewards} if data.gamma < 1.0 else {}
    result["length"] = np.ones_like(rewards)
    if data.success is not None:
        result["success"] = np.zeros_like(rewards)
        result["success"][data.ends - 1] = data.success
    return result
