"""How fast everything is: steps per second of every domain, beside plain PyTorch.

All are measured in one process. They take turns, and medians over the turns count.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from evenroll.adapters.loading import as_domain
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS
from evenroll.domains.domain import Domain
from evenroll.domains.gymnasium_env import make_environment
from evenroll.engine.random import stream, uniform
from evenroll.errors import SpecError
from evenroll.policies import MLP, Policy
from evenroll.samplers import ROS, Sampler
from evenroll.samplers.table import get_sampler
from evenroll.study.training import initial_policy

SAMPLERS = ("os", "ros", "bpg")
# These settings are for a domain that has none. A step takes equally long with other settings unless something runs away.
SETTINGS = {"ros": {"alpha": 1.0}, "bpg": {"batch": 10, "step_size": 1e-6}}
# Steps of one measurement, chosen so that each takes some tenths of a second. Records are kept by episode, so episodes
# have a limit too.
NETWORK_STEPS, TABLE_STEPS, TABLE_EPISODES, TORCH_STEPS = 100_000, 1_000_000, 300_000, 300


def run_bench(
    domains: Sequence[str | Domain] | None = None,
    *,
    quick: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Everything that `evenroll bench` prints. If domains are given, only their speeds are measured.

    quick  take fewer repeats, and make no comparison with PyTorch
    """
    repeats = 3 if quick else 7
    measured = [as_domain(domain) for domain in (DOMAINS if domains is None else domains)]
    total = repeats * len(measured) + (2 + 2 * repeats + 3 if domains is None else 0)
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    one_file = None if quick else _one_file()
    result: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "speeds": [_speeds(domain, one_file, repeats, tick) for domain in measured],
    }
    if domains is None:
        network = next(domain for domain in measured if _has_network(domain))
        result |= {
            "network": str(network),
            "two_cores_over_one": _two_cores(network, repeats, tick),
            "compile_seconds": _compile_times(network, tick),
            "by_data": _by_data(network, repeats, tick),
            "by_width": _by_width(network, repeats, tick),
        }
    return result


def _has_network(domain: Domain) -> bool:
    """Whether the domain's policies are networks with a probability for each action."""
    env = domain.environment(None)
    return env.n_states is None and env.n_actions is not None


def _policy(domain: Domain) -> Policy:
    """The policy that comes with the domain, or an untrained one, with which a step takes equally long."""
    try:
        return domain.policy()
    except SpecError:
        return initial_policy(domain, np.random.default_rng(0))


def _sampler(name: str, domain: Domain) -> Sampler:
    return get_sampler(name, {**SETTINGS, **domain.paper})


def _steps(domain: Domain) -> int:
    table = domain.environment(None).n_states is not None
    return min(TABLE_STEPS, TABLE_EPISODES * domain.horizon) if table else NETWORK_STEPS


def _seconds(domain: Domain, policy: Policy, sampler: Sampler, steps: int, seed: int = 0) -> float:
    driver = Driver(policy, sampler, (seed,), gamma=domain.gamma, horizon=domain.horizon)
    env = domain.environment(None)
    started = time.perf_counter()
    driver.run(env, steps=steps)
    return time.perf_counter() - started


def _one_file() -> Any:
    """examples/ros_in_one_file.py, or None where it or torch is missing."""
    path = Path(__file__).parents[3] / "examples" / "ros_in_one_file.py"
    if importlib.util.find_spec("torch") is None or not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("ros_in_one_file", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _torch_seconds(module: Any, domain: Domain, policy: Policy, alpha: float, steps: int) -> float:
    from evenroll.adapters.torch_copies import to_torch

    env = make_environment(domain)
    torch_policy, action_stream = to_torch(policy), stream(0, 0)
    env.reset(seed=0)
    started = time.perf_counter()
    module.robust_on_policy_sampling(env, torch_policy, alpha, steps, lambda: uniform(action_stream))
    return time.perf_counter() - started


def _speeds(domain: Domain, one_file: Any, repeats: int, tick: Callable[[], None]) -> dict[str, Any]:
    """Steps per second of one domain on one core."""
    policy, steps = _policy(domain), _steps(domain)
    samplers = {key: _sampler(key, domain) for key in SAMPLERS}
    ros = samplers["ros"]
    assert isinstance(ros, ROS)
    times: dict[str, list[float]] = {key: [] for key in (*SAMPLERS, "torch")}
    for sampler in samplers.values():
        _seconds(domain, policy, sampler, 100)
    for _ in range(repeats):  # they take turns, so that all meet the same noise of the machine
        for key, sampler in samplers.items():
            times[key].append(_seconds(domain, policy, sampler, steps) / steps)
        if one_file is not None:
            times["torch"].append(_torch_seconds(one_file, domain, policy, ros.alpha, TORCH_STEPS) / TORCH_STEPS)
        tick()
    row: dict[str, Any] = {"domain": str(domain)}
    row |= {f"{key}_steps_per_second": round(1 / statistics.median(times[key])) for key in SAMPLERS}
    row["torch_steps_per_second"] = round(1 / statistics.median(times["torch"])) if one_file is not None else None
    row["ros_against_torch"] = (
        round(statistics.median(t / r for t, r in zip(times["torch"], times["ros"], strict=True)), 1)
        if one_file is not None
        else None
    )
    return row


def _two_cores(domain: Domain, repeats: int, tick: Callable[[], None]) -> float | None:
    """The throughput of ROS on two threads, divided by the throughput on one."""
    if len(os.sched_getaffinity(0)) < 2:
        return None
    policy, sampler, steps = domain.policy(), _sampler("ros", domain), 4 * _steps(domain)
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


def _by_data(domain: Domain, repeats: int, tick: Callable[[], None]) -> list[dict[str, int]]:
    """Nanoseconds per step of ROS after k steps. They do not grow with k, because only S and k are kept."""
    policy, sampler, env, block = domain.policy(), _sampler("ros", domain), domain.environment(None), 20_000
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


def _by_width(domain: Domain, repeats: int, tick: Callable[[], None]) -> list[dict[str, int]]:
    """Nanoseconds per step of ROS with two hidden layers of H units, against the number of parameters."""
    env = domain.environment(None)
    actions = env.n_actions or 0
    rng = np.random.default_rng(0)
    rows = []
    for width in (64, 128, 256):
        layers = [(rng.normal(size=(width, inputs)) / np.sqrt(inputs), np.zeros(width)) for inputs in (env.obs_dim, width)]
        policy = MLP(layers, rng.normal(size=(actions, width)) / np.sqrt(width) / 10, np.zeros(actions))
        sampler = get_sampler("ros:alpha=0.1")
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


def _compile_times(domain: Domain, tick: Callable[[], None]) -> dict[str, float]:
    """Seconds until a first short ROS run in a new process has ended, with an empty compile cache and with a full one."""
    code = (
        "import time; t = time.perf_counter()\n"
        "from evenroll.study.bench import _seconds\nfrom evenroll.domains.catalogue import get_domain\n"
        f"from evenroll.samplers.table import get_sampler\nd = get_domain({str(domain)!r})\n"
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


def tables(result: dict[str, Any]) -> Iterator[Any]:
    """The result as tables and lines for people to read."""
    speeds = Table(title="million steps per second, one core", title_justify="left")
    for column in ("domain", "os", "ros", "bpg", "one-file PyTorch, steps/s", "ros against it"):
        speeds.add_column(column, justify="left" if column == "domain" else "right")
    for row in result["speeds"]:
        cells = [f"{row[f'{key}_steps_per_second'] / 1e6:.2f}" for key in SAMPLERS]
        torch, ratio = row["torch_steps_per_second"], row["ros_against_torch"]
        speeds.add_row(row["domain"], *cells, f"{torch:,}" if torch else "–", f"× {ratio:,.0f}" if ratio else "–")
    yield speeds
    if "network" not in result:
        return
    compile_, network = result["compile_seconds"], result["network"]
    yield f"two cores over one: {result['two_cores_over_one']}"
    yield f"first run of {network} ROS: {compile_['cold']} s cold, {compile_['cached']} s cached"
    by_data = ", ".join(f"{row['nanoseconds']} ns at k = {row['k']:,}" for row in result["by_data"])
    yield f"{network} ROS by data: {by_data}"
    by_width = ", ".join(
        f"{row['nanoseconds']} ns with {row['parameters']:,} ({row['picoseconds_per_parameter']} ps each)"
        for row in result["by_width"]
    )
    yield f"{network} ROS by parameters: {by_width}"
