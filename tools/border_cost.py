"""What the border in front of compiled code costs, in a Gymnasium step and in the rows of `evenroll bench`.

    python -m tools.border_cost

A step: the collector as it is against one whose checks are taken out of its source. Both step CartPole-v1 with a compiled
64 × 64 network, in one process and in turns of 200 steps, so that they meet the same noise. The result is the median over
the turns of the ratio of their times, with a 95 % bootstrap interval.

A row of `bench`: a trial runs in compiled calls, and checks are made once a call or once a trial, by functions that can be
timed. The result is their share of the row's time; the clock's own cost counts as theirs.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
import time
import types
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.collection import recorder
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.domains.environment import Environment
from evenroll.engine import border
from evenroll.evaluation.collector import Collector
from evenroll.policies import MLP
from evenroll.study import bench

TURNS, STEPS = 600, 200


def without(module: Any, function: Any, first: str, last: str) -> Any:
    """The function compiled from its source, where the lines from `first` to `last` only take the observation over."""
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    start = next(i for i, line in enumerate(lines) if first in line)
    end = next(i for i, line in enumerate(lines) if i >= start and last in line)
    plain = lines[start].partition("try:")[0] + "stepper.first[...] = observation"
    scope: dict[str, Any] = {}
    exec("from __future__ import annotations\n" + "\n".join([*lines[:start], plain, *lines[end + 1 :]]), vars(module), scope)
    return scope[function.__name__]


def stepping() -> tuple[Any, Any]:
    """A turn with the checks, and one without them, of the same collector."""
    rng = np.random.default_rng(0)
    layers = [(rng.standard_normal((64, n)) * 0.2, np.zeros(64)) for n in (4, 64)]
    collector = Collector(MLP(layers, rng.standard_normal((2, 64)) * 0.1, np.zeros(2)), gamma=0.99)
    bare = without(recorder, recorder.Recorder.act, "try:", "self._looked_at(")
    acts = collector.act, types.MethodType(bare, collector)
    env = gym.make("CartPole-v1")
    observation, _ = env.reset(seed=0)

    def run(act: Any) -> float:
        nonlocal observation
        started = time.thread_time()
        for _ in range(STEPS):
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            if collector.observe(reward, terminated, truncated, observation):
                observation, _ = env.reset()
        return time.thread_time() - started

    return functools.partial(run, acts[0]), functools.partial(run, acts[1])


class Timed:
    """A function that adds the seconds it takes to `total`. What it calls among its kind counts once."""

    total, depth = 0.0, 0

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        started = time.thread_time()
        Timed.depth += 1
        try:
            return self.function(*arguments, **options)
        finally:
            Timed.depth -= 1
            if Timed.depth == 0:
                Timed.total += time.thread_time() - started


def rows_of_bench() -> None:
    """The border's share of every row of `bench`, printed."""
    for name, function in list(vars(border).items()):
        if inspect.isfunction(function):
            setattr(border, name, Timed(function))
    check = Timed(Environment.check)
    Environment.check = lambda self, policy: check(self, policy)  # type: ignore[method-assign]
    largest = 0.0
    for name in DOMAINS:
        domain = get_domain(name)
        policy, env, steps = domain.policy(), domain.environment(None), bench._steps(domain)
        for sampler in bench.SAMPLERS:
            for turn in range(4):  # the first compiles
                driver = Driver(policy, bench._sampler(sampler, domain), (turn,), gamma=domain.gamma, horizon=domain.horizon)
                Timed.total, started = 0.0, time.thread_time()
                driver.run(env, steps=steps)
                share = Timed.total / (time.thread_time() - started)
                largest = max(largest, share if turn else 0.0)
    print(f"of every row of bench the border takes at most {largest:.1e}")


def main() -> None:
    ways = stepping()
    for way in ways:
        way()
    turns = [[way() for way in (ways if turn % 2 else ways[::-1])] for turn in range(TURNS)]
    times = np.array([turn if i % 2 else turn[::-1] for i, turn in enumerate(turns)])
    ratios, rng = times[:, 0] / times[:, 1], np.random.default_rng(0)
    again = np.median(rng.choice(ratios, (2000, len(ratios))), axis=1)
    low, high = np.quantile(again, (0.025, 0.975))
    print(f"with its checks a step takes {np.median(ratios):.4f} times as long [{low:.4f}, {high:.4f}]", end="; ")
    print(f"{np.median(times[:, 0]) / STEPS * 1e6:.1f} µs here", flush=True)
    rows_of_bench()


if __name__ == "__main__":
    main()
