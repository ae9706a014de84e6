"""What the border costs in a Gymnasium step: the collector as it is against one whose checks are taken out of its source.

    python -m tools.border_cost

Both step CartPole-v1 with a compiled 64 × 64 network, in one process and in turns of 300 steps, so that they meet the same
noise. The result is the median over the turns of the ratio of their times, with a 95 % bootstrap interval.
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
from evenroll.evaluation.collector import Collector
from evenroll.policies import MLP

TURNS, STEPS = 600, 200


def without(module: Any, function: Any, first: str, last: str) -> Any:
    """The function compiled from its source without the lines from `first` to `last`."""
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    start = next(i for i, line in enumerate(lines) if first in line)
    end = next(i for i, line in enumerate(lines) if i >= start and last in line)
    scope: dict[str, Any] = {}
    exec("from __future__ import annotations\n" + "\n".join(lines[:start] + lines[end + 1 :]), vars(module), scope)
    return scope[function.__name__]


def stepping() -> tuple[Any, Any]:
    """A turn with the checks, and one without them, of the same collector."""
    rng = np.random.default_rng(0)
    layers = [(rng.standard_normal((64, n)) * 0.2, np.zeros(64)) for n in (4, 64)]
    collector = Collector(MLP(layers, rng.standard_normal((2, 64)) * 0.1, np.zeros(2)), gamma=0.99)
    bare = without(recorder, recorder.Recorder.act, "try:", "self._number = ")
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
    print(f"{np.median(times[:, 0]) / STEPS * 1e6:.1f} µs here")


if __name__ == "__main__":
    main()
