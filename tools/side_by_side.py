"""Two checkouts of evenroll against each other, row by row of `evenroll bench`: is one slower than the other?

    python tools/side_by_side.py ../other/src src --starts 20 --repeats 5

Each checkout runs in a process of its own. The two take turns at every measurement, so that both meet the same noise, and
what is measured is the processor time of the thread that collects. One process can be 5 % slower than the next one with the
same code, for as long as it lives (where its memory happens to lie decides), so the pair is started anew several times. A
start's figure is the fastest of its repeats; the result is the ratio of the second checkout's median over the starts to the
first one's, with a 95 % bootstrap interval over the starts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys

WORKER = """
import json, sys, time
import numpy as np
import evenroll
from evenroll import Driver, MLP, get_domain
try:
    from evenroll.samplers.table import get_sampler
    sampler_of = lambda name, domain: get_sampler(name, domain.paper)
except ImportError:  # before the samplers had a table of their own
    from evenroll.language import get_sampler
    sampler_of = get_sampler

STEPS = {"bandit": 300_000, "gridworld": 1_000_000, "cartpole": 100_000, "cartpole-continuous": 100_000}

def wide(domain, width):
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(width, n)) / np.sqrt(n), np.zeros(width)) for n in (4, width)]
    return MLP(layers, rng.normal(size=(2, width)) / np.sqrt(width) / 10, np.zeros(2))

def seconds(row, steps=None):
    name, spec, width = row
    domain = get_domain(name)
    policy = domain.policy() if not width else wide(domain, width)
    driver = Driver(policy, sampler_of(spec, domain), (0,), gamma=domain.gamma, horizon=domain.horizon)
    env = domain.environment(None)
    started = time.thread_time()
    driver.run(env, steps=steps or (STEPS[name] if not width else 20_000))
    return time.thread_time() - started

def in_gymnasium(row, steps=None):
    # An environment that lives elsewhere, with our compiled network; or one of ours, stepped by itself.
    import gymnasium as gym
    env = gym.make(row[1])
    observation, _ = env.reset(seed=0)
    act = observe = None
    if row[0] == "gymnasium":
        collector = evenroll.Collector(wide(None, row[2]), gamma=0.99)
        act, observe = collector.act, collector.observe
    step = env.step
    started = time.thread_time()
    for i in range(steps or 20_000):
        observation, reward, terminated, truncated, _ = step(i % 2 if act is None else act(observation))
        over = terminated or truncated if observe is None else observe(reward, terminated, truncated, observation)
        if over:
            observation, _ = env.reset()
    return time.thread_time() - started

domains = seconds

def seconds(row, steps=None):
    return (in_gymnasium if row[0].startswith("gymnasium") else domains)(row, steps)

for line in sys.stdin:
    row = json.loads(line)
    if row[0] == "warm":
        seconds(row[1], 200)
        print(json.dumps(evenroll.__file__), flush=True)
    else:
        print(json.dumps(seconds(row)), flush=True)
"""
ROWS = [
    (domain, sampler, 0)
    for domain in ("bandit", "gridworld", "cartpole", "cartpole-continuous")
    for sampler in ("os", "ros", "bpg", "auto")
] + [("cartpole", "ros:alpha=0.1", width) for width in (64, 128, 256)]
ROWS += [("gymnasium", "CartPole-v1", 64), ("gymnasium, alone", "evenroll/CartPole-v0", 0)]


def open_worker(source: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.path.abspath(source)}
    command = [sys.executable, "-P", "-c", WORKER]
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(worker: subprocess.Popen[str], question: object) -> object:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(json.dumps(question) + "\n")
    worker.stdin.flush()
    return json.loads(worker.stdout.readline())


def one_start(sources: tuple[str, str], rows: list[tuple[str, str, int]], repeats: int) -> list[tuple[float, float]]:
    """The fastest of `repeats` times of each row in a new process of each checkout."""
    workers = [open_worker(source) for source in sources]
    fastest = []
    for row in rows:
        for worker in workers:
            ask(worker, ("warm", row))
        times: tuple[list[float], list[float]] = ([], [])
        for repeat in range(repeats):
            for i in (0, 1) if repeat % 2 == 0 else (1, 0):
                times[i].append(float(ask(workers[i], row)))  # type: ignore[arg-type]
        fastest.append((min(times[0]), min(times[1])))
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.wait()
    return fastest


def ratio_of_medians(pairs: list[tuple[float, float]]) -> float:
    return statistics.median(second for _, second in pairs) / statistics.median(first for first, _ in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", help="the src folder of one checkout")
    parser.add_argument("second", help="the src folder of the other")
    parser.add_argument("--starts", type=int, default=20, help="how often both processes are started")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each row in each start")
    parser.add_argument("--row", action="append", help="only this row, such as 'bandit ros'; may be given again")
    arguments = parser.parse_args()
    rows = [row for row in ROWS if arguments.row is None or f"{row[0]} {row[1]}" in arguments.row]
    starts = []
    for number in range(arguments.starts):
        starts.append(one_start((arguments.first, arguments.second), rows, arguments.repeats))
        print(f"start {number + 1} of {arguments.starts} done", file=sys.stderr, flush=True)
    draw = random.Random(0)
    for row, pairs in zip(rows, zip(*starts, strict=True), strict=True):
        again = sorted(ratio_of_medians(draw.choices(pairs, k=len(pairs))) for _ in range(2_000))
        name = f"{row[0]} {row[1]}" + (f", {row[2]} wide" if row[2] else "")
        print(f"{name:40} {ratio_of_medians(list(pairs)):.3f}   [{again[50]:.3f}, {again[-51]:.3f}]", flush=True)


if __name__ == "__main__":
    main()
