"""What a study costs, measured here: steps per core-second, larger networks, the store, and each way to run in parallel.

    python tools/capacity.py --json capacity.json

Steps are timed by the CPU clock of the thread, so that other work on the machine disturbs the measurement little.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.domains.domain import Domain
from evenroll.executors.pool import Pool, get_pool, in_order
from evenroll.policies import MLP, Policy
from evenroll.samplers.table import get_sampler
from evenroll.study.blocks import SAMPLING_ERRORS, Block, Work, compute
from evenroll.study.store import Store

SAMPLERS = ("os", "ros", "auto")
WIDTHS = (64, 128, 256, 512)
TURNS = 5


def steps_per_second(domain: Domain, policy: Policy, sampler: str, steps: int, record: bool = False) -> float:
    chosen, env, times = get_sampler(sampler, domain.paper), domain.environment(None), []
    for turn in range(TURNS + 1):
        driver = Driver(policy, chosen, (turn,), gamma=domain.gamma, horizon=domain.horizon, record_steps=record)
        started = time.thread_time()
        driver.run(env, steps=steps if turn else 100)  # the first compiles
        times.append((time.thread_time() - started) / steps)
    return 1.0 / statistics.median(times[1:])


def network(width: int) -> MLP:
    """A cartpole policy with two hidden layers of this width and random weights."""
    rng = np.random.default_rng(width)
    shapes = ((width, 4), (width, width))
    layers = [(rng.normal(size=s) / np.sqrt(s[1]), np.zeros(s[0])) for s in shapes]
    return MLP(layers, 0.01 * rng.normal(size=(2, width)), np.zeros(2))


def seconds_per_trial(work: Work) -> float:
    """CPU seconds of one trial to the full budget, all its measures included."""
    compute(Block(work, 0, 1))
    times = []
    for first in range(1, 4):
        started = time.thread_time()
        compute(Block(work, first, 1))
        times.append(time.thread_time() - started)
    return statistics.median(times)


def seconds_per_piece(pool: Pool, count: int) -> float:
    """Of handing out a piece of work that does nothing, once the workers are there."""
    begun: list[float] = []
    in_order(abs, range(count), pool, lambda done, total: begun.append(time.perf_counter()))
    return (begun[-1] - begun[count // 2]) / (count - 1 - count // 2)


def store_times() -> dict[str, float]:
    block = Block(Work("gridworld", "os", ("mc", *SAMPLING_ERRORS), tuple(2.0**i for i in range(14))), 0, 25)
    data = compute(block)
    with tempfile.TemporaryDirectory() as name:
        store, writes, reads = Store(name), [], []
        for _ in range(20):
            started = time.perf_counter()
            store.save(block, data)
            writes.append(time.perf_counter() - started)
            started = time.perf_counter()
            store.load(block)
            reads.append(time.perf_counter() - started)
        size = store.path(block.key).stat().st_size
    return {"write_seconds": statistics.median(writes), "read_seconds": statistics.median(reads), "bytes": size}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--dask", metavar="HOST:PORT", help="also time this scheduler")
    given = parser.parse_args()
    found: dict[str, Any] = {"steps_per_core_second": {}, "by_width": {}, "seconds_per_trial": {}, "seconds_per_piece": {}}
    for name in DOMAINS:
        domain = get_domain(name)
        row = {s: steps_per_second(domain, domain.policy(), s, 200_000) for s in SAMPLERS}
        found["steps_per_core_second"][name] = row
        print(f"{name:20}", "  ".join(f"{s} {x / 1e6:.2f} M steps/core-second" for s, x in row.items()), flush=True)
    domain = get_domain("cartpole")
    for width in WIDTHS:
        policy = network(width)
        row = {s: steps_per_second(domain, policy, s, 20_000) for s in SAMPLERS}
        found["by_width"][width] = {"parameters": policy.parameters, **row}
        print(f"{width} × {width} ({policy.parameters:,} parameters)", {s: f"{x:,.0f}" for s, x in row.items()}, flush=True)
    budgets = tuple(2.0**i for i in range(14))
    for name in DOMAINS:
        for measures in (("mc",), ("mc", "wris", *SAMPLING_ERRORS)):
            seconds = seconds_per_trial(Work(name, "ros", measures, budgets))
            found["seconds_per_trial"][f"{name} ros/{'+'.join(measures)}"] = seconds
            print(f"{name} ros/{'+'.join(measures)}: {seconds:.3g} core-seconds a trial", flush=True)
    found["store"] = store_times()
    print("store, a block of 25 trials:", {k: f"{v:.3g}" for k, v in found["store"].items()}, flush=True)
    pools = {"threads": get_pool("threads"), "processes": get_pool("processes")}
    if given.dask:
        pools["dask"] = get_pool(f"dask://{given.dask}")
    for name, pool in pools.items():
        found["seconds_per_piece"][name] = seconds_per_piece(pool, 2000 if name == "threads" else 400)
        print(f"{name}: {1e3 * found['seconds_per_piece'][name]:.2f} ms a piece of work", flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
