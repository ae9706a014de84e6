"""Many trials of several methods: the paper's comparison.

A trial collects once to the full budget; every estimate at a checkpoint is a function of a prefix of that data.
All methods of a trial share the environment's random stream and the initial data.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.collect import Driver
from evenroll.domains import Domain, Truth, get_domain
from evenroll.errors import NoEstimate, SpecError
from evenroll.fitting import with_features
from evenroll.language import Method, get_method
from evenroll.parallel import default_workers, in_order
from evenroll.policies import Policy
from evenroll.rollouts import Rollouts
from evenroll.samplers import OffPolicy
from evenroll.sampling_error import sampling_errors
from evenroll.values import truth


@dataclass(frozen=True)
class Curve:
    """One method at every checkpoint, errors relative to the true value. Missing trials enter no average."""

    method: str
    estimates: np.ndarray  # [trials, checkpoints], relative to the trial's true value; nan: no finished trajectory
    kl: np.ndarray | None = None  # [trials, checkpoints]
    grad_norm: np.ndarray | None = None
    runaway: int = 0  # trials in which the behaviour ran away from π_e

    @property
    def squared(self) -> np.ndarray:
        return np.asarray((self.estimates - 1.0) ** 2)

    @property
    def missing(self) -> np.ndarray:
        return np.asarray(np.isnan(self.estimates).sum(axis=0))

    def _over_trials(self, statistic: Callable[[np.ndarray], float], values: np.ndarray) -> np.ndarray:
        columns = [column[~np.isnan(column)] for column in values.T]
        return np.array([statistic(column) if len(column) else np.nan for column in columns])

    @property
    def mse(self) -> np.ndarray:
        return self._over_trials(lambda x: float(x.mean()), self.squared)

    @property
    def mse_se(self) -> np.ndarray:
        """One standard error of the mean squared error."""
        return self._over_trials(lambda x: float(x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else np.nan, self.squared)

    @property
    def bias(self) -> np.ndarray:
        return self._over_trials(lambda x: float(x.mean()), self.estimates - 1.0)

    def quantile(self, q: float) -> np.ndarray:
        return self._over_trials(lambda x: float(np.quantile(x, q)), self.squared)

    def _mean_or_null(self, values: np.ndarray | None) -> list[float | None]:
        if values is None:
            return [None] * self.estimates.shape[1]
        return _plain(self._over_trials(lambda x: float(x.mean()), values))

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "mse": _plain(self.mse),
            "mse_se": _plain(self.mse_se),
            "median": _plain(self.quantile(0.5)),
            "q25": _plain(self.quantile(0.25)),
            "q75": _plain(self.quantile(0.75)),
            "bias": _plain(self.bias),
            "missing": [int(x) for x in self.missing],
            "runaway": self.runaway,
            "kl": self._mean_or_null(self.kl),
            "grad_norm": self._mean_or_null(self.grad_norm),
        }


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`."""

    domain: str
    value: float
    value_se: float
    mean_length: float
    variance: float  # Var[return] on-policy; nan if unknown
    trials: int
    checkpoints: tuple[int, ...]
    curves: tuple[Curve, ...]
    env_steps: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "domain": self.domain,
            "value": _number(self.value),
            "value_se": _number(self.value_se),
            "mean_length": _number(self.mean_length),
            "trials": self.trials,
            "checkpoints": list(self.checkpoints),
            "env_steps": self.env_steps,
            "seconds": round(self.seconds, 3),
            "methods": [curve.to_json() for curve in self.curves],
        }

    def on_policy_theory(self) -> np.ndarray:
        """Var[return]/(n v²) at each checkpoint, n = steps/T̄: what on-policy Monte Carlo must show."""
        n = np.array(self.checkpoints) / self.mean_length
        with np.errstate(divide="ignore"):
            return np.asarray(self.variance / (n * self.value**2))


def _number(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None


def _plain(values: np.ndarray) -> list[float | None]:
    return [_number(float(x)) for x in values]


def checkpoints_for(mean_length: float, budget: float, initial: bool) -> tuple[int, ...]:
    """⌊T̄·2ⁱ⌋ steps up to the budget, and the budget itself; 0 in front where there is initial data."""
    if not budget >= 1 or not math.isfinite(budget):
        raise SpecError(f"the budget must be at least one mean episode length, not {budget}")
    last = math.floor(mean_length * budget)
    if last < 1:
        raise SpecError(f"a budget of {budget:g} × {mean_length:g} steps is less than one step")
    points = {math.floor(mean_length * 2**i) for i in range(math.floor(math.log2(budget)) + 1)} | {last}
    return tuple(sorted(({0} if initial else set()) | {p for p in points if 0 < p <= last}))


def initial_data(
    domain: Domain, policy: Policy, seed: tuple[int, ...], *, episodes: int = 100, delta: float = 0.1
) -> Rollouts:
    """D₁: `episodes` trajectories of the slightly off-policy behaviour, all steps kept."""
    driver = Driver(policy, OffPolicy(delta), (*seed, 3), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
    return driver.run(domain.trial_environment(seed), episodes=episodes)


def run_trial(
    domain: Domain,
    policy: Policy,
    method: Method,
    truth_: Truth,
    checkpoints: Sequence[int],
    seed: tuple[int, ...],
    *,
    initial_episodes: int = 100,
    delta: float = 0.1,
    sampling_error: bool = False,
) -> np.ndarray:
    """[4, checkpoints]: relative estimate, KL and gradient sampling error (nan where absent), whether π_b ran away."""
    value = truth_.value
    if domain.redrawn:
        known = domain.known_truth(policy, seed)
        assert known is not None
        value = known.value
    initial = None
    if method.initial:
        initial = initial_data(domain, policy, seed, episodes=initial_episodes, delta=delta)
    driver = Driver(
        policy,
        method.sampler,
        seed,
        gamma=domain.gamma,
        horizon=domain.horizon,
        value=value,
        initial=initial,
        record_weights=method.estimator.needs != "returns",
        record_steps=sampling_error or method.estimator.needs == "steps",
    )
    data = driver.run(domain.trial_environment(seed), steps=checkpoints[-1])
    if sampling_error or method.estimator.features:
        data = with_features(data, policy)
    result = np.full((4, len(checkpoints)), np.nan)
    result[3] = driver.divergence.runs_away
    for i, steps in enumerate(checkpoints):
        part = data.prefix(steps)
        try:
            result[0, i] = method.estimator(part, policy) / value
        except NoEstimate:
            pass
    if sampling_error:
        result[1:3] = sampling_errors(data, policy, checkpoints)
    return result


def compare(
    domain: str | Domain,
    methods: Sequence[str | Method],
    *,
    policy: Policy | None = None,
    value: float | None = None,
    mean_length: float | None = None,
    trials: int = 200,
    budget: float = 8192,
    initial_episodes: int = 100,
    delta: float = 0.1,
    sampling_error: bool = False,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Run `trials` trials of each method and score every checkpoint against the true value.

    The result is the same, bit for bit, for any number of workers.
    """
    domain = get_domain(domain)
    if not methods:
        raise SpecError("give at least one method, for example os/mc")
    parsed = [get_method(m, domain) for m in methods]
    if trials < 1:
        raise SpecError(f"trials must be at least 1, not {trials}")
    if initial_episodes < 1 and any(m.initial for m in parsed):
        raise SpecError(f"initial-episodes must be at least 1, not {initial_episodes}")
    for what, x in (("value", value), ("mean-length", mean_length)):
        if x is not None and (not math.isfinite(x) or x == 0 or (what == "mean-length" and x < 1)):
            raise SpecError(f"{what} must be a usable number, not {x}")
    if value is not None and domain.redrawn:
        raise SpecError("a redrawn bandit has another value in every trial; --value cannot be given")
    workers = workers or default_workers()
    policy = policy or domain.policy()
    domain.environment(None).check(policy)
    for method in parsed:
        method.sampler.check(policy)
    known = _truth(domain, policy, value, mean_length, seed, workers, progress)
    points = checkpoints_for(known.mean_length, budget, any(m.initial for m in parsed))
    total = len(parsed) * trials
    jobs = [(m, t) for m in range(len(parsed)) for t in range(trials)]

    def job(which: tuple[int, int]) -> np.ndarray:
        m, t = which
        return run_trial(
            domain,
            policy,
            parsed[m],
            known,
            points,
            (seed, t),
            initial_episodes=initial_episodes,
            delta=delta,
            sampling_error=sampling_error,
        )

    for method in parsed:  # compile before the clock starts
        run_trial(domain, policy, method, known, (1,), (seed, 0), initial_episodes=1, sampling_error=sampling_error)
    started = time.perf_counter()
    results = in_order(job, jobs, workers, progress)
    curves = []
    for i, method in enumerate(parsed):
        stacked = np.stack(results[i * trials : (i + 1) * trials])
        kl, grad_norm = (stacked[:, 1], stacked[:, 2]) if sampling_error else (None, None)
        curves.append(Curve(str(method), stacked[:, 0], kl, grad_norm, int(stacked[:, 3, 0].sum())))
    return Comparison(
        str(domain),
        known.value,
        known.value_se,
        known.mean_length,
        known.variance,
        trials,
        points,
        tuple(curves),
        env_steps=total * points[-1],
        seconds=time.perf_counter() - started,
    )


def _truth(
    domain: Domain,
    policy: Policy,
    value: float | None,
    mean_length: float | None,
    seed: int,
    workers: int,
    progress: Callable[[int, int], None] | None,
) -> Truth:
    """What the user says goes before what is known, and that before rollouts."""
    if value is not None and mean_length is not None:
        known = domain.known_truth(policy)
        return Truth(value, 0.0, mean_length, known.variance if known else math.nan)
    known = truth(domain, policy, seed=seed, workers=workers, progress=progress)
    return Truth(
        known.value if value is None else value,
        known.value_se if value is None else 0.0,
        known.mean_length if mean_length is None else mean_length,
        known.variance,
    )
