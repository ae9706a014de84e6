"""How often the interval of a success rate holds it: P from 0.005 to 0.97, 10 to 200 episodes, on-policy and balanced.

    python tools/success_coverage.py --repeats 2000
    python tools/success_coverage.py --repeats 2000 --task cartpole

An episode of the three small tables makes two decisions and then wins or loses. In `choices` the decisions settle it, in
`noise` the environment does, in `mixed` both have a part. Their success rate is exact. On `cartpole` a success is an episode
of at least so many steps; the threshold is the one whose share among 400,000 on-policy episodes is nearest to P, and that
share is the truth. Every run makes what `evaluate` makes, further resets included: of returns 0 and 1 within the bounds 0,
1 the default estimate (`score`) and the plain mean (`mc`, which the quantity `success` is), each with the interval `auto`.
The table shows the coverage of the 95 % interval, and in brackets its mean width over Clopper and Pearson's.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

import numpy as np

from evenroll import Driver, TabularSoftmax, get_domain, tabular_domain
from evenroll.collection.rollouts import Rollouts
from evenroll.domains.domain import Domain
from evenroll.engine.blas import single_threaded_blas
from evenroll.estimators import get_estimator
from evenroll.estimators.score_regression import score_regression
from evenroll.evaluation.looking import Look
from evenroll.evaluation.sources import DomainSource
from evenroll.intervals.independent import Interval, binomial
from evenroll.policies import Policy
from evenroll.samplers.table import get_sampler

RATES = (0.005, 0.03, 0.2, 0.5, 0.97)
EPISODES = (10, 20, 50, 200)
ESTIMATORS = ("score", "mc")
SAMPLERS = ("os", "auto")
TABLES = ("choices", "mixed", "noise")
FIRST, SECOND, WON, LOST, OVER = range(5)
THRESHOLD_EPISODES = 400_000


def two_decisions(kind: str, rate: float) -> tuple[Domain, Policy]:
    """A table whose episodes succeed with this rate: each of two decisions must go well, with probability √rate."""
    well = math.sqrt(rate)
    if kind == "choices":
        good, bad, likely = 1.0, 0.0, well
    elif kind == "mixed":
        bad, likely = max(0.2 * well, 2.0 * well - 1.0), 0.5
        good = 2.0 * well - bad
    else:
        good, bad, likely = well, well, 0.5
    transitions = np.zeros((5, 2, 5))
    for state, on in ((FIRST, SECOND), (SECOND, WON)):
        for action, chance in ((0, good), (1, bad)):
            transitions[state, action, [on, LOST]] = chance, 1.0 - chance
    transitions[[WON, LOST, OVER], :, OVER] = 1.0
    rewards = np.zeros((5, 2))
    rewards[WON] = 1.0
    domain = tabular_domain(kind, transitions, rewards, np.eye(5)[FIRST], np.eye(5)[OVER], horizon=3)
    with np.errstate(divide="ignore"):
        table = np.log([[likely, 1.0 - likely]] * 2 + [[0.5, 0.5]] * 3)
    return domain, TabularSoftmax(table)


def collected(source: DomainSource, episodes: int, longest: int | None) -> Rollouts:
    """What a source collects; `longest` is the number of steps from which an episode counts as a success."""
    for _ in source.collect(episodes, None, at_once=True):
        pass
    data = source.rollouts()
    if longest is None:
        return data
    won = (data.lengths >= longest).astype(np.float64)
    rewards = np.zeros(data.steps)
    rewards[data.ends - 1] = won
    return replace(data, gamma=1.0, returns=won, rewards=rewards)


def cell(domain: Domain, policy: Policy, rate: float, sampler: str, episodes: int, repeats: int, longest: int | None) -> str:
    """Coverage of each estimator's interval, and its mean width over that of independent outcomes."""
    held, width, plain = np.zeros(len(ESTIMATORS)), np.zeros(len(ESTIMATORS)), 0.0
    for i in range(repeats):
        source = DomainSource(
            domain, policy, sampler, gamma=1.0, seed=i, horizon=None, initial=None, deterministic=False
        )  # fmt: skip
        data = collected(source, episodes, longest)
        fit = score_regression(data, policy)
        for k, estimator in enumerate(ESTIMATORS):
            look = Look(get_estimator(estimator), bounds=(0.0, 1.0))
            _, interval = look.at(data, policy, source.sampler, 0.95, fit=fit)
            assert isinstance(interval, Interval), interval
            held[k] += interval.low <= rate <= interval.high
            width[k] += interval.high - interval.low
        low, high = binomial(float(data.returns.sum()), episodes)
        plain += high - low
    return " | ".join(f"{h / repeats:.3f} ({w / plain:.2f})" for h, w in zip(held, width, strict=True))


def cartpole_thresholds() -> dict[float, tuple[int, float]]:
    domain = get_domain("cartpole")
    driver = Driver(domain.policy(), get_sampler("os"), (11,), gamma=1.0, horizon=domain.horizon)
    lengths = driver.run(domain.environment(None), episodes=THRESHOLD_EPISODES).lengths
    shares = {int(n): float((lengths >= n).mean()) for n in np.unique(lengths)}
    return {rate: min(shares.items(), key=lambda item: abs(item[1] - rate)) for rate in RATES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--task", choices=(*TABLES, "cartpole"), action="append")
    parser.add_argument("--rate", type=float, choices=RATES, action="append")
    arguments = parser.parse_args()
    for task in arguments.task or TABLES:
        thresholds = cartpole_thresholds() if task == "cartpole" else {}
        columns = " | ".join(f"{sampler}/{estimator}" for sampler in SAMPLERS for estimator in ESTIMATORS)
        print(
            f"\n{task}, {arguments.repeats} runs a cell\n| P | episodes | {columns} |\n|---|---|---|---|---|---|", flush=True
        )
        for rate in arguments.rate or RATES:
            domain, policy = (
                two_decisions(task, rate) if task != "cartpole" else (get_domain(task), get_domain(task).policy())
            )
            longest, truth = thresholds.get(rate, (None, rate))
            for episodes in EPISODES:
                with single_threaded_blas():
                    found = [
                        cell(domain, policy, truth, sampler, episodes, arguments.repeats, longest) for sampler in SAMPLERS
                    ]
                print(f"| {truth:.4g} | {episodes} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
