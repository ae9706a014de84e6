"""When to give up a comparison of success rates that will hardly be decided any more: episodes and power, computed exactly.

    python -m tools.giving_up

A run is given up as soon as the chance of a verdict, judging by the pairs so far, is at most h; before a third of all pairs
it never is. For each h: the mean, over seven pairs of success rates, of the mean number of pairs relative to the fixed size
of Barnard's test (tools/deciding.py), where the limit of pairs is the smallest with a power of 80 %; and the power and the
mean number of pairs of 0.5 against 0.7 with at most 100 pairs. Episodes are independent. The distribution of wins and losses
is carried from pair to pair as in tools/step_comparison.py; only the sizes of Barnard's test come from draws.
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenroll.intervals.sequential import PATIENT, chance_to_decide, looks
from tools.deciding import _barnard_size
from tools.step_comparison import Rule, exactly, ours, outcomes

RATES = ((0.5, 0.7), (0.5, 0.8), (0.5, 0.9), (0.8, 0.95), (0.1, 0.3), (0.2, 0.5), (0.3, 0.9))  # those of tools/deciding.py
ALPHA, POWER = 0.05, 0.8


@functools.cache
def chances(n: int, most: int) -> np.ndarray:
    """[wins, losses] how likely a verdict within `most` pairs is, judging by these counts after n pairs."""
    found = np.zeros((n + 1, n + 1))
    for w, x in np.ndindex(n + 1, n + 1):
        error = math.sqrt(max((w + x - (w - x) ** 2 / n) / n, 1.0 / n) / n)
        found[w, x] = chance_to_decide((w - x) / n, error, n, most, (0.0, 0.0), lucky=1.0)
    return found


@functools.cache
def rule(most: int, hopeless: float) -> Rule:
    """The test of `difference`, given up where the chance of a verdict is at most `hopeless`; with 0 it never is."""
    whole = ours(most, ALPHA, False)
    ends = list(whole.ends)
    for n in looks(most):
        if hopeless > 0.0 and PATIENT * most <= n < most:
            ends[n] = chances(n, most) <= hopeless
    return replace(whole, ends=tuple(ends))


def reached(first: float, second: float, most: int, hopeless: float) -> tuple[float, float]:
    """(power, mean number of pairs) of two success rates, the second the larger one."""
    above, _, pairs = exactly(rule(most, hopeless), outcomes(np.array([second]), np.array([first]), 0.0))
    return float(above[0]), float(pairs[0])


def at_power(first: float, second: float, fixed: int, hopeless: float) -> float:
    """The mean number of pairs with the smallest limit that has the power."""
    low, high = fixed // 2, 3 * fixed
    while low < high:
        most = (low + high) // 2
        low, high = (low, most) if reached(first, second, most, hopeless)[0] >= POWER else (most + 1, high)
    return reached(first, second, low, hopeless)[1]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopeless", type=float, nargs="+", default=[0.0, 0.03, 0.05, 0.1, 0.2], help="h; 0 is never")
    given = parser.parse_args(words)
    fixed = [_barnard_size(first, second) for first, second in RATES]
    sizes = (f"{a:g} against {b:g}: {n}" for (a, b), n in zip(RATES, fixed, strict=True))
    print("Barnard's test:", ", ".join(sizes), flush=True)
    for hopeless in given.hopeless:
        ratios = [at_power(a, b, n, hopeless) / n for (a, b), n in zip(RATES, fixed, strict=True)]
        power, pairs = reached(0.5, 0.7, 100, hopeless)
        print(
            f"h = {hopeless:g}: mean ratio {np.mean(ratios):.3f} ({', '.join(f'{x:.2f}' for x in ratios)}); "
            f"0.5 against 0.7, at most 100 pairs: power {power:.3f}, {pairs:.1f} pairs",
            flush=True,
        )


if __name__ == "__main__":
    main()
