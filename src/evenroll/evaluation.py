"""The one call most people need: what is this policy worth?"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

from evenroll.collect import Driver
from evenroll.domains import Domain, get_domain
from evenroll.errors import SpecError
from evenroll.estimators import Estimator
from evenroll.estimators.importance import effective_sample_size, largest_weight
from evenroll.intervals import Interval, estimate_with_interval
from evenroll.language import get_estimator, get_sampler
from evenroll.parallel import single_threaded_blas
from evenroll.policies import Policy
from evenroll.rollouts import Rollouts
from evenroll.samplers import Sampler
from evenroll.sampling_error import gradient_sampling_error, kl_sampling_error
from evenroll.sequential import MOST_EPISODES, Target, collect_until

DEFAULT_SAMPLER, DEFAULT_ESTIMATOR = "auto", "mc"


@dataclass(frozen=True)
class Evaluation:
    """The value of a policy, what it took, and an interval where one is valid (else `why` says why not).

    kl, gradient   how far the data is from on-policy (0: as if every action came out in its exact proportion)
    behavior_kl, behavior_largest, runs_away   how far π_b was from π_e, per step (collect.Divergence)
    interval, note, fallback, exact   how the interval was made and what to know about it (intervals.Interval)
    on_policy_episodes  how many independent on-policy episodes would give mc an interval as narrow
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    why: str | None
    interval: str | None
    note: str | None
    fallback: bool
    exact: bool
    on_policy_episodes: float | None
    episodes: int
    steps: int
    terminated: int
    truncated: int
    unfinished: int
    sampler: str
    estimator: str
    domain: str
    gamma: float
    seed: int
    kl: float | None
    gradient: float | None
    behavior_kl: float
    behavior_largest: float
    runs_away: bool
    effective_sample_size: float | None
    largest_weight: float | None

    def to_json(self) -> dict[str, Any]:
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()}

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def __str__(self) -> str:
        half = self.half_width
        text = f"{self.value:.5g}" if half is None else f"{self.value:.5g} ± {half:.2g} ({100 * self.confidence:g} %)"
        return f"{text}, {self.episodes} episodes, {self.steps} steps, {self.sampler}/{self.estimator}"

    def in_words(self) -> str:
        """What was found: the value, its interval, and what the same precision costs on-policy."""
        half = self.half_width
        if half is None:
            return f"The policy is worth about {self.value:.5g}; no interval: {self.why}."
        level = f"{100 * self.confidence:g} %"
        if self.exact and self.estimator == "score":
            text = f"The policy is worth {self.value:.10g}, exact up to rounding: {self.note}."
        else:
            text = f"The policy is worth {self.value:.5g} ± {half:.2g} ({level}: {self.low:.5g} … {self.high:.5g})."
            text += f" Note: {self.note}." if self.note else ""
        if self.on_policy_episodes is not None and not self.exact and self.interval == "score":
            times = self.on_policy_episodes / self.episodes
            text += f" On-policy sampling would need about {self.on_policy_episodes:,.0f} episodes for this ({times:.2g}×)."
        return text


def evaluate(
    domain: str | Domain,
    policy: Policy | None = None,
    *,
    sampler: str | Sampler = DEFAULT_SAMPLER,
    estimator: str | Estimator = DEFAULT_ESTIMATOR,
    episodes: int | None = None,
    steps: int | None = None,
    gamma: float | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    half_width: float | str | None = None,
    interval: str = "auto",
    force_interval: bool = False,
    bounds: tuple[float, float] | None = None,
) -> Evaluation:
    """Collect `episodes` trajectories (default 1,000) or `steps` steps and estimate the policy's value.

    half_width  stop as soon as the interval is this narrow (a number, or "5%" of the value); `episodes` is then the most
                to collect (default 100,000). Looking repeatedly is paid for (sequential.py)
    interval    auto, score, or for independent trajectories t, bca, bernstein (which needs the `bounds` of returns)
    """
    domain = get_domain(domain)
    chosen, how = get_sampler(sampler, domain), get_estimator(estimator)
    if how.name == "wis+mc":
        raise SpecError("wis+mc needs initial data; use mc, ois or wis")
    if episodes is not None and steps is not None:
        raise SpecError("give either episodes or steps, not both")
    target = None if half_width is None else Target.parse(half_width)
    if target is not None and steps is not None:
        raise SpecError("half-width counts episodes; give --episodes as the most to collect, not --steps")
    if episodes is None and steps is None:
        episodes = 1000 if target is None else MOST_EPISODES
    for what, n in (("episodes", episodes), ("steps", steps)):
        if n is not None and n < 1:
            raise SpecError(f"{what} must be at least 1, not {n}")
    if not 0.0 < confidence < 1.0:
        raise SpecError(f"confidence must lie between 0 and 1, not {confidence}")
    policy = policy or domain.policy()
    gamma = domain.gamma if gamma is None else gamma
    known = domain.known_truth(policy) if chosen.name == "bpg" else None
    driver = Driver(
        policy,
        chosen,
        (seed,),
        gamma=gamma,
        horizon=domain.horizon,
        record_steps=True,
        value=known.value if known else 1.0,
    )
    env = domain.trial_environment((seed,))

    def look(data: Rollouts, level: float) -> tuple[float, Interval | str]:
        value, found = estimate_with_interval(
            data, policy, chosen, how, level, kind=interval, force=force_interval, bounds=bounds
        )
        if isinstance(found, Interval) and found.kind == "score" and driver.divergence.runs_away:
            return value, f"{chosen} runs away from the policy, and the data with it"
        return value, found

    with single_threaded_blas():
        if target is None:
            data = driver.run(env, steps=steps, episodes=episodes)
            value, found = look(data, confidence)
        else:
            assert episodes is not None
            data, value, found = collect_until(driver, env, look, target, confidence, episodes)
    low, high = (found.low, found.high) if isinstance(found, Interval) else (None, None)
    log_weights = None if how.log_weights is None else how.log_weights(data, policy)
    return Evaluation(
        value=value,
        low=low,
        high=high,
        confidence=confidence,
        why=found if isinstance(found, str) else None,
        interval=found.kind if isinstance(found, Interval) else None,
        note=found.note if isinstance(found, Interval) else None,
        fallback=isinstance(found, Interval) and found.fallback,
        exact=isinstance(found, Interval) and found.exact,
        on_policy_episodes=_on_policy_episodes(data, found),
        episodes=data.episodes,
        steps=data.steps,
        terminated=int(data.terminated.sum()),
        truncated=data.truncated,
        unfinished=data.unfinished,
        sampler=str(chosen),
        estimator=how.name,
        domain=str(domain),
        gamma=gamma,
        seed=seed,
        kl=kl_sampling_error(data, policy),
        gradient=gradient_sampling_error(data, policy),
        behavior_kl=driver.divergence.kl,
        behavior_largest=driver.divergence.largest,
        runs_away=driver.divergence.runs_away,
        effective_sample_size=None if log_weights is None else effective_sample_size(log_weights),
        largest_weight=None if log_weights is None else largest_weight(log_weights),
    )


def _on_policy_episodes(data: Rollouts, found: Interval | str) -> float | None:
    """(z σ/h)²: episodes at which z σ/√n is the half-width h, σ the standard deviation of the returns."""
    if isinstance(found, str) or found.half_width <= 0.0:
        return None
    z = NormalDist().inv_cdf(0.5 + found.confidence / 2)
    return float((z * data.returns.std(ddof=1) / found.half_width) ** 2)
