"""What grows with the number of episodes and with the width of a network, and what looking on costs.

    python tools/scale.py                      all of it; some minutes
    python tools/scale.py --only growth        a Collector at 10³, 10⁴ and 10⁵ episodes: time and memory of an episode
    python tools/scale.py --only merge         adding up what the blocks of a round have learnt, by the number of features
    python tools/scale.py --only handing       handing out a block on dask, with the balance that travels with it
    python tools/scale.py --only progress      an evaluation that shows its progress, relative to one that does not

Times are processor's seconds, which other work on the machine disturbs less than the clock. Handing out is by the clock.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import evenroll
from evenroll.collection.balance import Balance
from evenroll.collection.merging import added, merge, snapshot, take_over
from evenroll.evaluation.collector import Collector
from evenroll.executors.pool import get_pool, in_order
from evenroll.policies import MLP
from evenroll.samplers.table import get_sampler

WIDTHS = (64, 128, 256, 512)


def network(width: int, inputs: int = 4) -> MLP:
    rng = np.random.default_rng(0)
    hidden = [(rng.normal(size=(width, n)) / n**0.5, np.zeros(width)) for n in (inputs, width)]
    return MLP(hidden, rng.normal(size=(2, width)) / width**0.5, np.zeros(2))


def fastest(do: Callable[[], Any], repeats: int) -> float:
    """The least of several processor's times, in seconds."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        do()
        times.append(time.process_time() - started)
    return min(times)


def growth(length: int = 5) -> None:
    """Episodes of this many steps. Each row is about the last thousand episodes before it."""
    collector, rng = Collector(network(16), gamma=0.99), np.random.default_rng(1)
    done, process, before = 0, psutil.Process(), 0
    for episodes in (1_000, 10_000, 100_000):
        while done < episodes:
            if done in (0, episodes - 1000):
                started, first = time.process_time(), process.memory_info().rss
                before = before or first
            for t in range(length):
                collector.act(rng.normal(size=4))
                collector.observe(1.0, t == length - 1, False, rng.normal(size=4))
            done += 1
        spent, now = time.process_time() - started, process.memory_info().rss
        each = (now - before) / episodes
        print(
            f"{episodes:7} episodes of {length} steps: {1e6 * spent / 1000:.0f} µs an episode, {each:.0f} bytes", flush=True
        )


def merging(blocks: int = 32) -> None:
    for width in WIDTHS:
        policy = network(width)
        balance, worker = (Balance(policy, get_sampler("auto"), (0, i), gamma=0.99) for i in range(2))
        state = snapshot(balance, blocks, 1000.0)
        take_over(worker, state)
        gained = [added(worker, state, False)] * blocks
        balance.memory[0] = 1e9  # so many steps that the matrix is not inverted anew
        size = sum(x.nbytes for x in gained[0].values())
        alone = fastest(lambda w=worker, s=state: added(w, s, False), 20)  # type: ignore[misc]
        taking = fastest(lambda w=worker, s=state: take_over(w, s), 20)  # type: ignore[misc]
        whole = fastest(lambda b=balance, g=gained: merge(b, g), 20) / blocks  # type: ignore[misc]
        print(
            f"{width + 1} features: the balance is taken over in {1e3 * taking:.3f} ms; a block hands back "
            f"{size / 1e3:,.0f} kB in {1e3 * alone:.3f} ms, and is added in {1e3 * whole:.3f} ms",
            flush=True,
        )


def same(state: Any) -> Any:
    """What a worker that does nothing hands back."""
    return state


def handing(count: int = 300) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    from chaos import cluster

    with cluster(2) as machines:
        pool = get_pool(f"dask://127.0.0.1:{machines.port}")
        for width in (0, *WIDTHS):
            state = None if width == 0 else snapshot(Balance(network(width), get_sampler("auto"), (0,), gamma=0.99))
            times: list[float] = []
            in_order(same, [state] * count, pool, lambda *_, times=times: times.append(time.perf_counter()))  # type: ignore[misc]
            each = (times[-1] - times[count // 2]) / (count - 1 - count // 2)
            size = 0 if state is None else sum(x.nbytes for x in state.values())
            print(f"dask, two workers, {size / 1e3:,.0f} kB there and back: {1e3 * each:.1f} ms a block", flush=True)


def progress(episodes: int = 3000, repeats: int = 7) -> None:
    def run(show: Any) -> float:
        started = time.process_time()
        evenroll.evaluate("CartPole-v1", network(64), episodes=episodes, gamma=0.99, progress=show)
        return time.process_time() - started

    run(None)
    seen: list[Any] = []
    pairs = [(run(None), run(seen.append)) for _ in range(repeats)]
    ratios = [shown / plain for plain, shown in pairs]
    told, ratio = len(seen) / repeats, statistics.median(ratios)
    print(
        f"progress, {episodes} episodes of CartPole-v1, told {told:.0f} times: {ratio:.3f} times the processor's time "
        f"(each pair: {', '.join(f'{r:.3f}' for r in ratios)})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = {"growth": growth, "merge": merging, "handing": handing, "progress": progress}
    parser.add_argument("--only", choices=list(parts))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with contextlib.suppress(KeyboardInterrupt):
        for name, part in parts.items():
            if given.only in (None, name):
                part()


if __name__ == "__main__":
    main()
