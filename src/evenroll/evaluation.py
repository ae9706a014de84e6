"""The one call most people need: what is this policy worth?"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenroll.collect import Driver
from evenroll.domains import Domain, get_domain
from evenroll.errors import SpecError
from evenroll.estimators import Estimator
from evenroll.estimators.importance import effective_sample_size, largest_weight
from evenroll.intervals import student_t
from evenroll.language import get_estimator, get_sampler
from evenroll.policies import Policy
from evenroll.rollouts import Rollouts
from evenroll.samplers import Sampler
from evenroll.sampling_error import gradient_sampling_error, kl_sampling_error


@dataclass(frozen=True)
class Evaluation:
    """The value of a policy, what it took, and an interval where one is valid (else `why` says why not).

    kl, gradient   how far the data is from on-policy (0: as if every action came out in its exact proportion)
    expected_kl    what `kl` would be on average for on-policy sampling of the same size (parameters / 2·steps)
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    why: str | None
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
    effective_sample_size: float | None
    largest_weight: float | None

    def to_json(self) -> dict[str, Any]:
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()}

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            half = (self.high - self.low) / 2
            text = f"{self.value:.5g} ± {half:.2g} ({100 * self.confidence:g} %)"
        else:
            text = f"{self.value:.5g}"
        return f"{text}, {self.episodes} episodes, {self.steps} steps, {self.sampler}/{self.estimator}"


def evaluate(
    domain: str | Domain,
    policy: Policy | None = None,
    *,
    sampler: str | Sampler = "ros",
    estimator: str | Estimator = "mc",
    episodes: int | None = None,
    steps: int | None = None,
    gamma: float | None = None,
    seed: int = 0,
    confidence: float = 0.95,
) -> Evaluation:
    """Collect `episodes` trajectories (default 1,000) or `steps` steps and estimate the policy's value."""
    domain = get_domain(domain)
    chosen, how = get_sampler(sampler, domain), get_estimator(estimator)
    if how.name == "wis+mc":
        raise SpecError("wis+mc needs initial data; use mc, ois or wis")
    if episodes is not None and steps is not None:
        raise SpecError("give either episodes or steps, not both")
    if episodes is None and steps is None:
        episodes = 1000
    for what, n in (("episodes", episodes), ("steps", steps)):
        if n is not None and n < 1:
            raise SpecError(f"{what} must be at least 1, not {n}")
    if not 0.0 < confidence < 1.0:
        raise SpecError(f"confidence must lie between 0 and 1, not {confidence}")
    policy = policy or domain.policy()
    gamma = domain.gamma if gamma is None else gamma
    known = domain.known_truth(policy) if chosen.name == "bpg" else None
    driver = Driver(
        policy, chosen, (seed,), gamma=gamma, horizon=domain.horizon, record_steps=True,
        value=known.value if known else 1.0,
    )  # fmt: skip
    data = driver.run(domain.trial_environment((seed,)), steps=steps, episodes=episodes)
    low, high, why = _interval(data, chosen, how, confidence)
    log_weights = None if how.log_weights is None else how.log_weights(data, policy)
    return Evaluation(
        value=how(data, policy),
        low=low,
        high=high,
        confidence=confidence,
        why=why,
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
        effective_sample_size=None if log_weights is None else effective_sample_size(log_weights),
        largest_weight=None if log_weights is None else largest_weight(log_weights),
    )


def _interval(
    data: Rollouts, sampler: Sampler, estimator: Estimator, confidence: float
) -> tuple[float | None, float | None, str | None]:
    """Student's t where trajectories are independent and the estimate is their plain mean."""
    if not sampler.independent:
        return None, None, f"{sampler.name} makes trajectories depend on each other: std/√n is not their standard error"
    if estimator.name == "mc" and not sampler.on_policy:
        return None, None, f"mc on {sampler.name} data estimates the value of the behaviour policy"
    if estimator.name not in ("mc", "ois"):
        return None, None, f"{estimator.name} is a ratio: its error is not that of a mean"
    if data.episodes < 2:
        return None, None, "fewer than 2 trajectories have finished"
    values = data.returns
    if estimator.name == "ois":
        values = values * np.exp(data.column("log_weights"))
    low, high = student_t(values, confidence)
    return low, high, None
