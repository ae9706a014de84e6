"""What balancing costs for every kind of policy: the time of a step over one of the library's own stochastic rollouts.

    python -m tools.adapters_overhead --markdown table.md

The kinds are those of the contract test (tests/contract/test_adapters.py), with small networks, in one environment that
costs next to nothing, so that little hides behind the network and the environment. Both ways take turns in short blocks, so
that other work on the machine hits both; the median of the blocks' ratios counts. `--limit` fails if one takes longer.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import torch

from evenroll.evaluation.collector import Collector
from tests.contract.kinds import Kind, Own, Track, apart, stacked
from tests.contract.test_adapters import BALANCED, made


def theirs(kind: Kind, own: Own, steps: int) -> float:
    """Seconds of the library's own rollout: it draws an action for one observation at a time."""
    env, state = Track(kind, known=False), None
    observation, _ = env.reset(seed=0)
    started = time.perf_counter()
    with torch.no_grad():
        for _ in range(steps):
            masks = env.masks[env.t : env.t + 1]
            actions, state = own.draw(stacked(kind.observations, [observation]), state, masks)
            observation, _, over, _, _ = env.step(apart(kind.actions, actions)[0])
            if over:
                observation, _ = env.reset()
                state = None
    return time.perf_counter() - started


def ours(kind: Kind, collector: Collector, steps: int) -> float:
    """Seconds of the same with `auto`, the step recorded."""
    env = Track(kind, known=False)
    observation, _ = env.reset(seed=0)
    over, started = False, time.perf_counter()
    for _ in range(steps):
        action = collector.act(observation, masks=env.masks[env.t] if kind.masked else None)
        observation, reward, over, _, info = env.step(action)
        collector.observe(reward, over, False, observation, info)
        if over:
            observation, _ = env.reset()
    taken = time.perf_counter() - started
    if not over:
        collector.abandon()
    return taken


def ratio(name: str, blocks: int, steps: int) -> tuple[str, float, float]:
    """(what it is taken for, the median of the blocks' ratios, microseconds of our step)."""
    with tempfile.TemporaryDirectory() as place:
        kind, policy, own = made(name, Path(place))
        assert own is not None
        collector = Collector(policy, observation_space=kind.observations, action_space=kind.actions)
        ratios, seconds = [], []
        for _ in range(blocks + 1):
            taken = ours(kind, collector, steps)
            ratios.append(taken / theirs(kind, own, steps))
            seconds.append(taken)
        described = collector.model.described
        collector.close()
    return described, median(ratios[1:]), 1e6 * median(seconds[1:]) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=BALANCED, choices=BALANCED)
    parser.add_argument("--blocks", type=int, default=11)
    parser.add_argument("--steps", type=int, default=200, help="of a block")
    parser.add_argument("--limit", type=float, default=1.6)
    parser.add_argument("--markdown", type=Path, help="where to write the table")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    lines: list[str] = ["| policy | taken for | time of a step | µs |", "|---|---|---|---|"]
    slow: list[Any] = []
    for name in arguments.kinds:
        described, found, micro = ratio(name, arguments.blocks, arguments.steps)
        lines.append(f"| {name} | {described} | {found:.2f} | {micro:.0f} |")
        slow += [name] if found > arguments.limit else []
        print(f"{name}: {found:.2f} ({described}; {micro:.0f} µs)", flush=True)
    print(f"{len(slow)} of {len(arguments.kinds)} above {arguments.limit:g}: {', '.join(slow) or 'none'}")
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(lines) + "\n")
    raise SystemExit(1 if slow else 0)


if __name__ == "__main__":
    main()
