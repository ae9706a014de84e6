"""One trial: data is collected once, to the full budget, and at every checkpoint a prefix of it is measured.

All methods of a trial share the environment's random stream and the initial data.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.domain import Domain, Truth
from evenroll.errors import NoEstimate, SpecError
from evenroll.estimators.behavior_fit import fits_of_beginnings, with_features, with_fit
from evenroll.estimators.importance import effective_sample_size, largest_weight
from evenroll.estimators.sampling_error import gradient_sampling_errors, kl_sampling_error
from evenroll.estimators.table import Estimator
from evenroll.policies import Policy
from evenroll.samplers import OffPolicy, Sampler

MOST_STEPS = 10**15  # a trial with more would never end
KL, GRADIENT = "kl", "grad_norm"  # the columns of the two sampling errors
ESS, LARGEST_WEIGHT = "effective_sample_size", "largest_weight"  # of the first estimator's weights


@dataclass(frozen=True)
class Trials:
    """How each of many trials is run: where, how it collects, what is measured, after how many new steps.

    checkpoints       the numbers of new steps after which the data is measured
    initial           whether to start from `initial_episodes` episodes of data that is off-policy by `delta`
    sampling_error    whether to measure both sampling errors too
    weights           whether to measure the effective sample size and the largest weight too, if the first estimator weighs
                      trajectories
    """

    domain: Domain
    policy: Policy
    truth: Truth
    sampler: Sampler
    estimators: tuple[Estimator, ...]
    checkpoints: tuple[int, ...]
    initial: bool = False
    sampling_error: bool = False
    weights: bool = False
    initial_episodes: int = 100
    delta: float = 0.1

    @property
    def columns(self) -> tuple[str, ...]:
        names = tuple(e.name for e in self.estimators)
        weights = (ESS, LARGEST_WEIGHT) if self.weights and self.estimators[0].log_weights else ()
        return (*names, *weights, *((KL, GRADIENT) if self.sampling_error else ()))

    @property
    def records_steps(self) -> bool:
        return self.sampling_error or any(e.needs == "steps" for e in self.estimators)

    @property
    def watches_every_step(self) -> bool:
        """Whether the guard sees all steps. Where no weights are needed it sees a few of them, and may judge otherwise."""
        weights = any(e.needs == "weights" for e in self.estimators)
        return weights or self.records_steps or self.sampler.on_policy or self.sampler.needs_weights


def checkpoints_for(mean_length: float, budget: float, initial: bool) -> tuple[int, ...]:
    """⌊T̄·2ⁱ⌋ steps up to the budget, and the budget itself. With initial data, 0 comes first."""
    if not budget >= 1 or not math.isfinite(budget):
        raise SpecError(f"the budget must be at least one mean episode length, not {budget}")
    last = math.floor(mean_length * budget)
    if last > MOST_STEPS:
        raise SpecError(f"a budget of {budget:g} mean episodes is {last:.2g} steps; more than {MOST_STEPS:g} never end")
    if last < 1:
        raise SpecError(f"a budget of {budget:g} × {mean_length:g} steps is less than one step")
    points = {math.floor(mean_length * 2**i) for i in range(math.floor(math.log2(budget)) + 1)} | {last}
    return tuple(sorted(({0} if initial else set()) | {p for p in points if 0 < p <= last}))


def initial_data(
    domain: Domain, policy: Policy, seed: tuple[int, ...], *, episodes: int = 100, delta: float = 0.1
) -> Rollouts:
    """The initial data D₁: `episodes` trajectories of a slightly off-policy behaviour, with all steps kept."""
    driver = Driver(policy, OffPolicy(delta), (*seed, 3), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
    return driver.run(domain.trial_environment(seed), episodes=episodes)


class Trial(NamedTuple):
    """What one trial measured: values [columns, checkpoints]. Estimates are relative to the true value; nan means none."""

    values: np.ndarray
    runaway: bool  # whether π_b ran away from π_e
    seconds: float  # the time that collecting took


def run_trial(trials: Trials, seed: tuple[int, ...]) -> Trial:
    """Collect to the last checkpoint, and measure at each. The result depends on `seed` only, whatever else runs."""
    domain, policy, checkpoints = trials.domain, trials.policy, trials.checkpoints
    value = trials.truth.value
    if domain.redrawn:
        known = domain.known_truth(policy, seed)
        assert known is not None
        value = known.value
    driver = Driver(
        policy,
        trials.sampler,
        seed,
        gamma=domain.gamma,
        horizon=domain.horizon,
        value=value,
        initial=_start(trials, seed) if trials.initial else None,
        record_weights=any(e.needs == "weights" for e in trials.estimators),
        record_steps=trials.records_steps,
    )
    started = time.perf_counter()
    data = driver.run(domain.trial_environment(seed), steps=checkpoints[-1])
    seconds = time.perf_counter() - started
    if trials.sampling_error or any(e.features for e in trials.estimators):
        data = with_features(data, policy)
    values = np.full((len(trials.columns), len(checkpoints)), np.nan)
    behavior_fits = _behavior_fits(data, trials)
    for i, (steps, log_fit) in enumerate(zip(checkpoints, behavior_fits, strict=True)):
        part = _with_other_fits(replace(data.prefix(steps), log_fit=log_fit), trials)
        weights_only = replace(part, log_e=None, log_b=None)  # so that no bit depends on what else is measured
        for j, estimator in enumerate(trials.estimators):
            try:
                values[j, i] = estimator(weights_only if estimator.needs == "weights" else part, policy) / value
            except NoEstimate:
                pass
        if ESS in trials.columns and part.episodes:
            at, weigh = trials.columns.index(ESS), trials.estimators[0].log_weights
            assert weigh is not None
            log_weights = weigh(part, policy)
            values[at : at + 2, i] = effective_sample_size(log_weights), largest_weight(log_weights)
        if trials.sampling_error:
            values[-2, i] = kl_sampling_error(part, policy)
    if trials.sampling_error:
        values[-1] = gradient_sampling_errors(data, policy, checkpoints)
    return Trial(values, driver.divergence.runs_away, seconds)


def _behavior_fits(data: Rollouts, trials: Trials) -> Iterable[np.ndarray | None]:
    """log π̂ of the data up to each checkpoint, if anything needs it."""
    if trials.sampling_error or any(e.fits is with_fit for e in trials.estimators):
        return fits_of_beginnings(trials.policy, data, [data.initial_steps + steps for steps in trials.checkpoints])
    return [None] * len(trials.checkpoints)


def _with_other_fits(part: Rollouts, trials: Trials) -> Rollouts:
    """The data carrying the other fits that several estimators share, so that each fit is made once."""
    for fit in dict.fromkeys(e.fits for e in trials.estimators if e.fits not in (None, with_fit)):
        assert fit is not None
        try:
            part = fit(part, trials.policy)
        except NoEstimate:
            pass  # the estimator that needs the fit will raise the error
    return part


def _start(trials: Trials, seed: tuple[int, ...]) -> Rollouts:
    return initial_data(trials.domain, trials.policy, seed, episodes=trials.initial_episodes, delta=trials.delta)


def run_trials(trials: Trials, seeds: Sequence[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """The values [trials, columns, checkpoints] of one trial per seed, and whether each ran away [trials]."""
    results = [run_trial(trials, seed) for seed in seeds]
    return np.stack([r.values for r in results]), np.array([r.runaway for r in results])
