"""How fast: steps per second of every built-in domain, against plain PyTorch, in one process, medians of turns."""

from __future__ import annotations

import importlib.util
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.domains.domain import Domain
from evenroll.engine.random import stream, uniform
from evenroll.policies import MLP, Policy
from evenroll.samplers import Sampler
from evenroll.samplers.table import get_sampler

STEPS = {"bandit": 300_000, "gridworld": 1_000_000, "cartpole": 100_000, "cartpole-continuous": 100_000}
SAMPLERS = ("os", "ros", "bpg")


def _seconds(domain: Domain, policy: Policy, sampler: Sampler, steps: int, seed: int = 0) -> float:
    driver = Driver(policy, sampler, (seed,), gamma=domain.gamma, horizon=domain.horizon)
    env = domain.environment(None)
    started = time.perf_counter()
    driver.run(env, steps=steps)
    return time.perf_counter() - started


def _one_file() -> Any:
    """examples/ros_in_one_file.py and torch, or None where one is missing."""
    path = Path(__file__).parents[2] / "examples" / "ros_in_one_file.py"
    if importlib.util.find_spec("torch") is None or not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("ros_in_one_file", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _torch_seconds(module: Any, domain: Domain, policy: Policy, alpha: float, steps: int) -> float:
    import gymnasium

    from evenroll.adapters.torch_copies import to_torch
    from evenroll.domains.registration import NAMES

    env = gymnasium.make(next(name for name, (which, _) in NAMES.items() if which == domain.name))
    torch_policy, action_stream = to_torch(policy), stream(0, 0)
    env.reset(seed=0)
    started = time.perf_counter()
    module.robust_on_policy_sampling(env, torch_policy, alpha, steps, lambda: uniform(action_stream))
    return time.perf_counter() - started


def _speeds(repeats: int, tick: Callable[[], None]) -> list[dict[str, Any]]:
    rows = []
    module = _one_file()
    for name in DOMAINS:
        domain = get_domain(name)
        policy = domain.policy()
        samplers = {key: get_sampler(key, domain.paper) for key in SAMPLERS}
        times: dict[str, list[float]] = {key: [] for key in (*SAMPLERS, "torch")}
        for sampler in samplers.values():
            _seconds(domain, policy, sampler, 100)
        torch_steps = 300
        for _ in range(repeats):  # in turns, so that all meet the same noise
            for key, sampler in samplers.items():
                times[key].append(_seconds(domain, policy, sampler, STEPS[name]) / STEPS[name])
            if module is not None:
                alpha = domain.paper["ros"]["alpha"]
                times["torch"].append(_torch_seconds(module, domain, policy, alpha, torch_steps) / torch_steps)
            tick()
        row: dict[str, Any] = {"domain": name}
        row |= {f"{key}_steps_per_second": round(1 / statistics.median(times[key])) for key in SAMPLERS}
        row["torch_steps_per_second"] = round(1 / statistics.median(times["torch"])) if module is not None else None
        row["ros_against_torch"] = (
            round(statistics.median(t / r for t, r in zip(times["torch"], times["ros"], strict=True)), 1)
            if module is not None
            else None
        )
        rows.append(row)
    return rows


def _two_cores(repeats: int, tick: Callable[[], None]) -> float | None:
    """Throughput of cartpole ROS on two threads over one."""
    if len(os.sched_getaffinity(0)) < 2:
        return None
    domain = get_domain("cartpole")
    policy, sampler, steps = domain.policy(), get_sampler("ros", domain.paper), 4 * STEPS["cartpole"]
    ratios = []
    with ThreadPoolExecutor(2) as pool:
        for _ in range(repeats):
            started = time.perf_counter()
            _seconds(domain, policy, sampler, steps)
            one = time.perf_counter() - started
            started = time.perf_counter()
            list(pool.map(lambda seed: _seconds(domain, policy, sampler, steps, seed), (1, 2)))
            ratios.append(2 * one / (time.perf_counter() - started))
            tick()
    return round(statistics.median(ratios), 2)


def _by_data(repeats: int, tick: Callable[[], None]) -> list[dict[str, int]]:
    """Nanoseconds per step of cartpole ROS once k steps lie behind: flat, because only S and k are kept."""
    domain = get_domain("cartpole")
    policy, sampler, env, block = domain.policy(), get_sampler("ros", domain.paper), domain.environment(None), 20_000
    wanted = (1_000, 100_000, 400_000)
    times: dict[int, list[float]] = {k: [] for k in wanted}
    for repeat in range(repeats):
        driver = Driver(policy, sampler, (repeat,), gamma=domain.gamma, horizon=domain.horizon)
        for k in wanted:
            driver.run(env, steps=k)
            started = time.perf_counter()
            driver.run(env, steps=k + block)
            times[k].append((time.perf_counter() - started) / block)
        tick()
    return [{"k": k, "nanoseconds": round(1e9 * statistics.median(times[k]))} for k in wanted]


def _by_width(repeats: int, tick: Callable[[], None]) -> list[dict[str, int]]:
    """Nanoseconds per step of cartpole ROS with two hidden layers of H units, against the number of parameters."""
    domain = get_domain("cartpole")
    rng = np.random.default_rng(0)
    rows = []
    for width in (64, 128, 256):
        layers = [
            (rng.normal(size=(width, inputs)) / np.sqrt(inputs), np.zeros(width))
            for inputs in (domain.policy().obs_dim, width)
        ]
        policy = MLP(layers, rng.normal(size=(2, width)) / np.sqrt(width) / 10, np.zeros(2))
        sampler = get_sampler("ros:alpha=0.1", domain.paper)
        _seconds(domain, policy, sampler, 100)
        times = [_seconds(domain, policy, sampler, 20_000) / 20_000 for _ in range(repeats)]
        nanoseconds = 1e9 * statistics.median(times)
        rows.append(
            {
                "hidden": width,
                "parameters": policy.parameters,
                "nanoseconds": round(nanoseconds),
                "picoseconds_per_parameter": round(1e3 * nanoseconds / policy.parameters),
            }
        )
        tick()
    return rows


def _compile_times(tick: Callable[[], None]) -> dict[str, float]:
    """Seconds until a first short cartpole ROS run in a new process: nothing cached, and everything."""
    code = (
        "import time; t = time.perf_counter()\n"
        "from evenroll.study.bench import _seconds\nfrom evenroll.domains.catalogue import get_domain\n"
        "from evenroll.samplers import get_sampler\nd = get_domain('cartpole')\n"
        "_seconds(d, d.policy(), get_sampler('ros', d.paper), 10)\nprint(time.perf_counter() - t)"
    )
    result = {}
    with tempfile.TemporaryDirectory() as cache:
        for key in ("cold", "cached"):
            env = {**os.environ, "NUMBA_CACHE_DIR": cache}
            run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
            result[key] = round(float(run.stdout), 2)
            tick()
    return result


def run_bench(*, quick: bool = False, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Everything `evenroll bench` prints."""
    repeats = 3 if quick else 7
    total = repeats * len(DOMAINS) + 2 + 2 * repeats + 3
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "speeds": _speeds(repeats, tick),
        "two_cores_over_one": _two_cores(repeats, tick),
        "compile_seconds": _compile_times(tick),
        "by_data": _by_data(repeats, tick),
        "by_width": _by_width(repeats, tick),
    }


def tables(result: dict[str, Any]) -> Iterator[Any]:
    """The result for people."""
    speeds = Table(title="million steps per second, one core", title_justify="left")
    for column in ("domain", "os", "ros", "bpg", "one-file PyTorch, steps/s", "ros against it"):
        speeds.add_column(column, justify="left" if column == "domain" else "right")
    for row in result["speeds"]:
        cells = [f"{row[f'{key}_steps_per_second'] / 1e6:.2f}" for key in SAMPLERS]
        torch, ratio = row["torch_steps_per_second"], row["ros_against_torch"]
        speeds.add_row(row["domain"], *cells, f"{torch:,}" if torch else "–", f"× {ratio:,.0f}" if ratio else "–")
    yield speeds
    compile_ = result["compile_seconds"]
    yield f"two cores over one: {result['two_cores_over_one']}"
    yield f"first run of cartpole ROS: {compile_['cold']} s cold, {compile_['cached']} s cached"
    by_data = ", ".join(f"{row['nanoseconds']} ns at k = {row['k']:,}" for row in result["by_data"])
    yield f"cartpole ROS by data: {by_data}"
    by_width = ", ".join(
        f"{row['nanoseconds']} ns with {row['parameters']:,} ({row['picoseconds_per_parameter']} ps each)"
        for row in result["by_width"]
    )
    yield f"cartpole ROS by parameters: {by_width}"
