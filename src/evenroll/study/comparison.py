"""Many trials of several methods, in one call: the paper's comparison."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenroll.adapters.loading import as_domain
from evenroll.domains.domain import Domain, Truth
from evenroll.errors import SpecError
from evenroll.executors.pool import Pool, get_pool, in_order
from evenroll.files.figures import save_figure
from evenroll.policies import Policy
from evenroll.study.comparison_plot import draw_curves
from evenroll.study.comparison_table import header_and_rows, plain_table, remarks
from evenroll.study.curve import Curve, finite_or_none
from evenroll.study.method import MethodLike, get_method
from evenroll.study.trials import Trial, Trials, checkpoints_for, run_trial
from evenroll.study.true_value import truth
from evenroll.text.specs import whole_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`. Printed, it is a table; `plot` draws it.

    domain       the name of the domain
    value        the policy's true value
    value_se     the standard error of the true value; 0 if the value is exact
    mean_length  the mean episode length, which is the unit of the budget
    variance     Var[return] on-policy; nan if it is not known
    trials       the number of trials of each method
    checkpoints  the numbers of new environment steps after which each trial was measured
    curves       one curve for each method, in the order in which the methods were given
    env_steps    the environment steps of all trials together
    seconds      the time that all trials took
    """

    domain: str
    value: float
    value_se: float
    mean_length: float
    variance: float
    trials: int
    checkpoints: tuple[int, ...]
    curves: tuple[Curve, ...]
    env_steps: int
    seconds: float

    def __str__(self) -> str:
        table = plain_table(*header_and_rows(self.checkpoints, self.curves))
        return "\n".join([self.title(), table, *remarks(self.curves), self.summary()])

    def title(self) -> str:
        """What the table shows."""
        return f"{self.domain}: relative MSE ± 1 s.e., {self.trials} trials"

    def summary(self) -> str:
        """The true value, the mean length, and what it all took, in one line."""
        error = f" ± {self.value_se:.2g}" if self.value_se else " (exact)"
        rate = self.env_steps / max(self.seconds, 1e-9) / 1e6
        return (
            f"v(π) = {self.value:.6g}{error}, T̄ = {self.mean_length:.5g}; "
            f"{self.env_steps:,} steps in {self.seconds:.1f} s ({rate:.2f} M steps/s)"
        )

    def plot(self, path: str | Path | None = None) -> Figure:
        """MSE curves on logarithmic scales. If there is a `path`, they are saved there, in the format that its name says."""
        title = f"{self.domain}: {self.trials} trials, band ± 1 standard error"
        figure = draw_curves(title, self.checkpoints, self.curves, self.on_policy_theory())
        if path is not None:
            save_figure(figure, path)
        return figure

    def to_json(self) -> dict[str, Any]:
        """Everything that is known of every method, as plain numbers. What could not be computed is None."""
        return {
            "domain": self.domain,
            "value": finite_or_none(self.value),
            "value_se": finite_or_none(self.value_se),
            "mean_length": finite_or_none(self.mean_length),
            "trials": self.trials,
            "checkpoints": list(self.checkpoints),
            "env_steps": self.env_steps,
            "seconds": round(self.seconds, 3),
            "methods": [curve.to_json() for curve in self.curves],
        }

    def on_policy_theory(self) -> np.ndarray:
        """Var[return]/(n v²) at each checkpoint, n = steps/T̄. This is the error that on-policy Monte Carlo must show."""
        n = np.array(self.checkpoints) / self.mean_length
        with np.errstate(divide="ignore"):
            return np.asarray(self.variance / (n * self.value**2))


def compare(
    domain: str | Domain,
    methods: Sequence[MethodLike],
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

    domain   the name of a built-in domain, `module:name` of your own, or the object
    methods  each is a specification such as "init+ros:alpha=10/mc", a sampler, or a pair (sampler, estimator)

    The result is the same, bit for bit, for any number of workers, in threads, processes or on a cluster.
    """
    pool = get_pool(executor, workers)
    domain = as_domain(domain)
    if not methods:
        raise SpecError("give at least one method, for example os/mc")
    parsed = [get_method(m, domain) for m in methods]
    whole_number("trials", trials, 1)
    if any(m.initial for m in parsed):
        whole_number("initial-episodes", initial_episodes, 1)
    if isinstance(budget, bool) or not isinstance(budget, int | float | np.number):
        raise SpecError(f"the budget must be a number, not {budget!r:.60}")
    for what, x in (("value", value), ("mean-length", mean_length)):
        if x is not None and (not math.isfinite(x) or x == 0 or (what == "mean-length" and x < 1)):
            raise SpecError(f"{what} must be a usable number, not {x}")
    if value is not None and domain.redrawn:
        raise SpecError(f"{domain} is drawn anew in every trial and has another value in each: --value cannot be given")
    policy = policy or domain.policy()
    domain.environment(None).check(policy)
    for method in parsed:
        method.sampler.check(policy)
    seed = whole_number("seed", seed, 0)
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
    """The truth to compare with: what the user says, or what is known, or else the result of rollouts."""
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
