"""Large things that people really have: how long they take and how much memory, or that they are refused beforehand.

    python -m tools.sizes [NAME …]        the table of docs/capacity.md

Each case runs in a process of its own. The seconds are the processor's, so that other work on the machine disturbs little;
the memory is the most that the process had beyond what the libraries take.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import EvenrollError
from evenroll.evaluation.collector import Collector
from evenroll.evaluation.evaluate import evaluate
from evenroll.policies import MLP, TabularSoftmax
from evenroll.samplers.table import get_sampler


def memory() -> float:
    """The most megabytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def told(what: str) -> Iterator[None]:
    """Print a row: what was done, the processor's seconds, the most memory so far, or the words of a refusal."""
    started, came = time.process_time(), ""
    try:
        yield
    except EvenrollError as error:
        came = f"refused: {error}"
    print(f"| {what} | {time.process_time() - started:.1f} s | {memory() - BEFORE:.0f} MB | {came} |", flush=True)


def table(states: int, actions: int, steps: int, length: int = 50) -> None:
    """Somebody's own loop through an environment whose states have numbers."""
    rng = np.random.default_rng(0)
    name = f"a table of {states:,} states and {actions:,} actions"
    collector = Collector(TabularSoftmax(rng.normal(size=(states, actions))))
    gains = rng.normal(size=actions)
    with told(f"{name}: collect {steps:,} steps"):
        state = 0
        for t in range(steps):
            action = int(collector.act(state))
            over = collector.observe(float(gains[action]), t % length == length - 1)
            state = 0 if over else (state * 7 + 13 * action + int(rng.integers(5))) % states
    with told(f"{name}: result()"):
        collector.result()


def episodes(n: int) -> None:
    collector = Collector(TabularSoftmax(np.zeros((4, 3))))
    with told(f"collect {n:,} episodes of one step"):
        for t in range(n):
            action = collector.act(t % 4)
            collector.observe(float(action == t % 3), True)
    with tempfile.TemporaryDirectory() as place:
        with told("save them"):
            collector.save(Path(place, "collector.safetensors"))
        with told("resume them"):
            Collector(TabularSoftmax(np.zeros((4, 3)))).resume(Path(place, "collector.safetensors"))
    with told("result()"):
        collector.result()


def network(width: int) -> MLP:
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(width, n)) / np.sqrt(n), np.zeros(width)) for n in (4, width)]
    return MLP(layers, rng.normal(size=(2, width)) / np.sqrt(width), np.zeros(2))


def wide(width: int) -> None:
    policy, domain = network(width), get_domain("cartpole")
    env = domain.environment(None)
    for sampler in ("os", "ros:alpha=0.1", "props", "auto"):
        with told(f"a network of {width:,} × {width:,}, {sampler}: 1,000 steps"):
            driver = Driver(policy, get_sampler(sampler), (0,), gamma=1.0, horizon=200)
            driver.run(env, steps=1000)
    with told("evaluate it with os, 100 episodes, with its interval"):
        evaluate(domain, policy, sampler="os", episodes=100)


CASES: dict[str, Callable[[], Any]] = {
    "states": lambda: table(3000, 4, 60_000),
    "actions": lambda: table(20, 1000, 20_000),
    "both": lambda: table(3000, 1000, 20_000),
    "episodes": lambda: episodes(2_000_000),
    "width": lambda: wide(2048),
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        policy = TabularSoftmax(np.zeros((4, 3)))  # compile first
        small = Collector(policy)
        for _ in range(40):
            small.act(0)
            small.observe(1.0, True)
        small.result()
        BEFORE = memory()
        CASES[sys.argv[2]]()
    else:
        print("| | time | memory | |\n|---|---|---|---|", flush=True)
        for name in sys.argv[1:] or CASES:
            subprocess.run([sys.executable, "-W", "ignore", "-m", "tools.sizes", "--child", name], check=False)
