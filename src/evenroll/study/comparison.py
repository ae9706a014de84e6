"""Many trials of several methods, in one call: the paper's comparison."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.domains.catalogue import get_domain
from evenroll.domains.domain import Domain, Truth
from evenroll.errors import SpecError
from evenroll.executors.pool import Pool, get_pool, in_order
from evenroll.policies import Policy
from evenroll.study.method import Method, get_method
from evenroll.study.trials import ESS, GRADIENT, KL, LARGEST_WEIGHT, Trial, Trials, checkpoints_for, run_trial
from evenroll.study.true_value import truth


@dataclass(frozen=True)
class Curve:
    """One method at every checkpoint, errors relative to the true value. Missing trials enter no average."""

    method: str
    estimates: np.ndarray  # [trials, checkpoints], relative to the trial's true value; nan: no finished trajectory
    kl: np.ndarray | None = None  # [trials, checkpoints]
    grad_norm: np.ndarray | None = None
    runaway: int = 0  # trials in which the behaviour ran away from π_e
    effective_sample_size: np.ndarray | None = None  # [trials, checkpoints], where trajectories are weighted
    largest_weight: np.ndarray | None = None

    @classmethod
    def of(cls, name: str, columns: Sequence[str], values: np.ndarray, runaway: int) -> Curve:
        """From what trials measured, [trials, columns, checkpoints]: the first column, and the sampling errors if any."""
        found = [values[:, columns.index(c)] if c in columns else None for c in (KL, GRADIENT, ESS, LARGEST_WEIGHT)]
        return cls(name, values[:, 0], found[0], found[1], runaway, found[2], found[3])

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
        return self._over_trials(_standard_error, self.squared)

    def over_trials(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean over trials and its standard error, at every checkpoint of [trials, checkpoints]."""
        return self._over_trials(lambda x: float(x.mean()), values), self._over_trials(_standard_error, values)

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
            "effective_sample_size": self._mean_or_null(self.effective_sample_size),
            "largest_weight": self._mean_or_null(self.largest_weight),
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


def _standard_error(x: np.ndarray) -> float:
    return float(x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else math.nan


def _number(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None


def _plain(values: np.ndarray) -> list[float | None]:
    return [_number(float(x)) for x in values]


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
    executor: str | Pool = "threads",
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Run `trials` trials of each method and score every checkpoint against the true value.

    The result is the same, bit for bit, for any number of workers, in threads, processes or on a cluster.
    """
    pool = get_pool(executor, workers)
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
    policy = policy or domain.policy()
    domain.environment(None).check(policy)
    for method in parsed:
        method.sampler.check(policy)
    known = _truth(domain, policy, value, mean_length, seed, workers, progress)
    points = checkpoints_for(known.mean_length, budget, any(m.initial for m in parsed))
    ways = [
        Trials(
            domain,
            policy,
            known,
            m.sampler,
            (m.estimator,),
            points,
            m.initial,
            sampling_error,
            weights=True,
            initial_episodes=initial_episodes,
            delta=delta,
        )
        for m in parsed
    ]
    for way in ways:  # compile before the clock starts
        run_trial(dataclasses.replace(way, checkpoints=(1,), initial_episodes=1), (seed, 0))
    started = time.perf_counter()
    jobs = [(way, t) for way in ways for t in range(trials)]
    results = in_order(functools.partial(_one, seed), jobs, pool, progress)
    curves = []
    for i, (method, way) in enumerate(zip(parsed, ways, strict=True)):
        mine = results[i * trials : (i + 1) * trials]
        values = np.stack([r.values for r in mine])
        curves.append(Curve.of(str(method), way.columns, values, sum(r.runaway for r in mine)))
    return Comparison(
        str(domain),
        known.value,
        known.value_se,
        known.mean_length,
        known.variance,
        trials,
        points,
        tuple(curves),
        env_steps=len(jobs) * points[-1],
        seconds=time.perf_counter() - started,
    )


def _one(seed: int, job: tuple[Trials, int]) -> Trial:
    trials, number = job
    return run_trial(trials, (seed, number))


def _truth(
    domain: Domain,
    policy: Policy,
    value: float | None,
    mean_length: float | None,
    seed: int,
    workers: int | None,
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
