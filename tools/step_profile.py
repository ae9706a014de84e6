"""Is a slow step ours or the machine's? Times of a step beside a loop that only computes, in turns.

    python -m tools.step_profile                 all domains, 60 rounds, about a minute
    python -m tools.step_profile --rounds 200

On a shared machine a core is at times slower by a third or a half, because a neighbour uses the other half of the same
physical core; no clock of this process sees that. So each round runs a loop of the same instructions and no memory
(additions and multiplications in registers), and then every domain. If a step is slow only while that loop is, its time divided
by the loop's is steady, and the limit is the machine. *Fast* are the rounds in which the loop takes at most 5 % longer than in
the fastest.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numba import njit

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.engine.blas import single_threaded_blas
from evenroll.study.bench import _sampler

LOOP = 20_000_000
STEPS = {"bandit": 200_000, "gridworld": 200_000}  # and so many of networks:
NETWORK_STEPS = 40_000


@njit
def arithmetic(n: int) -> float:  # type: ignore[no-untyped-def]
    """Eight sums that do not wait for each other, so that they fill the units that multiply and add."""
    a = b = c = d = e = f = g = h = 1.0
    for _ in range(n // 8):
        a, b, c, d = a * 0.999 + 0.1, b * 0.999 + 0.2, c * 0.999 + 0.3, d * 0.999 + 0.4
        e, f, g, h = e * 0.999 + 0.5, f * 0.999 + 0.6, g * 0.999 + 0.7, h * 0.999 + 0.8
    return a + b + c + d + e + f + g + h


def nanoseconds_of_loop() -> float:
    began = time.perf_counter()
    arithmetic(LOOP)
    return 1e9 * (time.perf_counter() - began) / LOOP


def nanoseconds_of_step(name: str, sampler: str, steps: int) -> float:
    domain = get_domain(name)
    driver = Driver(domain.policy(), _sampler(sampler, domain), (0,), gamma=domain.gamma, horizon=domain.horizon)
    env = domain.environment(None)
    began = time.perf_counter()
    driver.run(env, steps=steps)
    return 1e9 * (time.perf_counter() - began) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    rows = [(name, sampler) for name in DOMAINS for sampler in ("os", "ros")]
    arithmetic(1)
    with single_threaded_blas():
        for name, sampler in rows:
            nanoseconds_of_step(name, sampler, 100)
        loops, steps = [], []
        for _ in range(given.rounds):
            before, found = nanoseconds_of_loop(), []
            for name, sampler in rows:  # the loop again after every row: the machine changes within a round
                found.append(nanoseconds_of_step(name, sampler, STEPS.get(name, NETWORK_STEPS)))
                after = nanoseconds_of_loop()
                loops.append((before + after) / 2)
                before = after
            steps.append(found)
    loop = np.array(loops).reshape(given.rounds, len(rows))
    step = np.array(steps)
    fast = loop <= 1.05 * loop.min()
    low, middle, high = np.percentile(loop, [10, 50, 90])
    print(f"the loop: {low:.3f}, {middle:.3f}, {high:.3f} ns (10, 50 and 90 % of all); fast in {fast.mean():.0%} of all")
    for j, (name, sampler) in enumerate(rows):
        ratio = step[:, j] / loop[:, j]
        spread = np.percentile(step[:, j], [10, 50, 90])
        line = f"{name:20s} {sampler:4s} {spread[0]:5.0f} {spread[1]:5.0f} {spread[2]:5.0f} ns"
        line += f"   million steps a second: {1e3 / spread[1]:5.2f}"
        if fast[:, j].any():
            line += f", {1e3 / np.median(step[fast[:, j], j]):5.2f} while the machine is fast"
        print(f"{line}   step / loop {np.percentile(ratio, 10):.0f} to {np.percentile(ratio, 90):.0f}")


if __name__ == "__main__":
    main()
