"""What Student's 95 % interval does where it was not made for: long tails, and looking again and again. Two simulations.

    python -m tools.plain_intervals

*Long tails*: how often it holds the mean of 30 exponential values, as it is, and with the end towards the tail moved
outwards as evenroll does it. *Looking*: in how many runs of differences with mean 0 an interval at one of the looks leaves 0
aside. The first look comes after 5 pairs, as in `difference`, and then there is one after every pair.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import numpy as np

from evenroll.estimators.skewness import skewness
from evenroll.intervals.independent import Interval, binomial, student_quantile
from evenroll.intervals.sequential import FIRST
from evenroll.intervals.skewed import for_skewness, second_order


def long_tails(rng: np.random.Generator, runs: int, n: int) -> tuple[int, int]:
    """In how many runs the mean of n exponential values is in Student's interval, and in the widened one."""
    plain = wider = 0
    t, times = student_quantile(0.95, n - 1), second_order(0.95)
    for values in rng.exponential(size=(runs, n)):
        mean, half = float(values.mean()), t * float(values.std(ddof=1)) / math.sqrt(n)
        interval = Interval(mean - half, mean + half, 0.95, "t", skewness=skewness(values))
        plain += interval.low <= 1.0 <= interval.high
        moved = for_skewness(interval, mean, n, times)
        wider += moved.low <= 1.0 <= moved.high
    return plain, wider


def looking(rng: np.random.Generator, runs: int, most: int) -> int:
    """In how many runs of normal values with mean 0 an interval after 5, 6, … or `most` of them leaves 0 aside."""
    n = np.arange(1, most + 1)
    t = np.array([student_quantile(0.95, int(k) - 1) for k in n[FIRST - 1 :]])
    values = rng.normal(size=(runs, most))
    mean = values.cumsum(axis=1) / n
    squares = np.square(values).cumsum(axis=1) - n * mean**2  # around the mean so far
    error = np.sqrt(squares[:, FIRST - 1 :] / (n - 1.0)[FIRST - 1 :] / n[FIRST - 1 :])
    return int((np.abs(mean[:, FIRST - 1 :]) > t * error).any(axis=1).sum())


def told(count: int, runs: int) -> str:
    low, high = binomial(count, runs)
    return f"{count / runs:.4f} [{low:.4f}, {high:.4f}]"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--values", type=int, default=30, help="exponential values in a run")
    parser.add_argument("--pairs", type=int, nargs="+", default=[30, 60, 200], help="looks until there are so many")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    rng = np.random.default_rng(given.seed)
    plain, wider = long_tails(rng, given.runs, given.values)
    print(f"{given.values} exponential values, {given.runs} runs: held in {told(plain, given.runs)}", flush=True)
    print(f"the same, the end towards the tail moved: held in {told(wider, given.runs)}", flush=True)
    for most in given.pairs:
        wrong = looking(rng, given.runs, most)
        print(f"an interval after every pair up to {most}: wrong in {told(wrong, given.runs)}", flush=True)


if __name__ == "__main__":
    main()
