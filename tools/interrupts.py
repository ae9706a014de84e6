"""How long it takes from Ctrl-C to the end of a command, in all kinds of work.

    python -m tools.interrupts [NAME …]

Every case is started in a child process, gets SIGINT at several moments, and has to end within a second. What it was doing
then (loading, compiling, collecting, fitting) depends on the moment, so each case has several.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT, PATIENCE = 1.0, 40.0
COMMAND = [sys.executable, "-P", "-m", "evenroll"]
SHIPPED = Path("src/evenroll/domains/data/cartpole.safetensors").resolve()

PRELUDE = """
import sys, time
import numpy as np
import evenroll
from evenroll import MLP, TabularSoftmax, Driver, Rollouts, get_domain, tabular_domain
from evenroll.samplers.table import get_sampler
rng = np.random.default_rng(0)

def wide(width, actions=2):
    layers = [(rng.normal(size=(width, 4)) / 2, np.zeros(width))]
    return MLP(layers, rng.normal(size=(actions, width)) / width**0.5, np.zeros(actions))

def endless(states=50):
    P = np.full((states, 2, states), 1 / states)
    return tabular_domain("endless", P, np.ones((states, 2)), np.full(states, 1 / states), horizon=10**9)

def started():
    print("started", flush=True)
"""

# What runs in Python, after the prelude: the interrupt comes so many seconds after it has said "started".
IN_PYTHON = {
    "an episode without end": """
d = endless(); env = d.environment(None)
driver = Driver(TabularSoftmax(np.zeros((50, 2))), get_sampler("os"), (0,), gamma=1.0, horizon=10**9)
driver.run(env, steps=1000); started(); driver.run(env, episodes=3)""",
    "auto, 1,000 features": """
env = get_domain("cartpole").environment(None)
driver = Driver(wide(1000), get_sampler("auto"), (0,), gamma=1.0, horizon=200)
driver.run(env, steps=1); started(); driver.run(env, episodes=10**7)""",
    "ros, width 2,048": """
env = get_domain("cartpole").environment(None)
driver = Driver(wide(2048), get_sampler("ros:alpha=1"), (0,), gamma=1.0, horizon=200)
driver.run(env, steps=1); started(); driver.run(env, episodes=10**7)""",
    "props, 64 × 64": """
env, policy = get_domain("cartpole").environment(None), get_domain("cartpole").policy()
driver = Driver(policy, get_sampler("props"), (0,), gamma=1.0, horizon=200)
driver.run(env, steps=1); started(); driver.run(env, episodes=10**7)""",
    "roa, many candidates": """
env, policy = get_domain("cartpole-continuous").environment(None), get_domain("cartpole-continuous").policy()
driver = Driver(policy, get_sampler("roa:rho=1,candidates=1000"), (0,), gamma=1.0, horizon=200)
driver.run(env, steps=1); started(); driver.run(env, episodes=10**7)""",
    "revar, the largest model": """
n = 440
P = rng.random((n, 2, n)); P /= P.sum(axis=2, keepdims=True)
d = tabular_domain("large", P, rng.random((n, 2)), np.full(n, 1 / n), gamma=1.0, horizon=1000)
driver = Driver(TabularSoftmax(np.zeros((n, 2))), get_sampler("revar"), (0,), gamma=1.0, horizon=1000)
env = d.environment(None); driver.run(env, steps=1); started(); driver.run(env, episodes=10**6)""",
    "initial data, 2 million steps": """
n = 2_000_000
data = Rollouts(1.0, n, np.full(n // 100, 100.0), np.arange(100, n + 1, 100), np.ones(n // 100, bool), None,
    rng.normal(size=(n, 4)), rng.integers(2, size=(n, 1)).astype(float), np.ones(n))
policy = get_domain("cartpole").policy(); evenroll.Collector(policy, initial=data.prefix(100)); started()
evenroll.Collector(policy, "ros:alpha=1", initial=data)""",
    "diagnose, 2 million steps": """
n = 2_000_000
data = Rollouts(1.0, n, np.full(n // 100, 100.0), np.arange(100, n + 1, 100), np.ones(n // 100, bool), None,
    rng.normal(size=(n, 4)), rng.integers(2, size=(n, 1)).astype(float), np.ones(n))
policy = get_domain("cartpole").policy(); evenroll.diagnose(data.prefix(1000), policy); started()
evenroll.diagnose(data, policy)""",
    "fqe, 2 million steps": """
n = 2_000_000
log = np.full(n, np.log(0.5))
data = Rollouts(1.0, n, np.full(n // 100, 100.0), np.arange(100, n + 1, 100), np.ones(n // 100, bool), None,
    rng.normal(size=(n, 4)), rng.integers(2, size=(n, 1)).astype(float), np.ones(n), log, log)
from evenroll.estimators.table import ESTIMATORS
policy = get_domain("cartpole").policy(); ESTIMATORS["fqe"](data.prefix(1000), policy); started()
ESTIMATORS["fqe"](data, policy)""",
    "ris, 2 million steps": """
n = 2_000_000
log = np.full(n, np.log(0.5))
data = Rollouts(1.0, n, np.full(n // 100, 100.0), np.arange(100, n + 1, 100), np.ones(n // 100, bool), None,
    rng.normal(size=(n, 4)), rng.integers(2, size=(n, 1)).astype(float), np.ones(n), log, log)
from evenroll.estimators.table import ESTIMATORS
policy = get_domain("cartpole").policy(); ESTIMATORS["ris"](data.prefix(1000), policy); started()
ESTIMATORS["ris"](data, policy)""",
    "result, width 2,048": """
c = evenroll.Collector(wide(2048), "os")
for t in range(3000):
    c.act(rng.normal(size=4)); c.observe(rng.random(), t % 30 == 29)
started(); c.result(); c.result(); c.result()""",
    "result of 2 million episodes": """
n = 2_000_000
policy = TabularSoftmax(np.zeros((16, 4)))
data = Rollouts(1.0, n, rng.random(n), np.arange(1, n + 1), np.ones(n, bool), None,
    rng.integers(16, size=(n, 1)).astype(float), rng.integers(4, size=(n, 1)).astype(float), rng.random(n))
c = evenroll.Collector(policy, initial=data); c.act(0); c.observe(1.0, True); started(); c.result()""",
    "result, table of 3,000 states": """
n = 200_000
policy = TabularSoftmax(np.zeros((3000, 4)))
data = Rollouts(1.0, n, np.full(n // 10, 1.0), np.arange(10, n + 1, 10), np.ones(n // 10, bool), None,
    rng.integers(3000, size=(n, 1)).astype(float), rng.integers(4, size=(n, 1)).astype(float), rng.random(n))
c = evenroll.Collector(policy, initial=data); c.act(0); c.observe(1.0, True); started(); c.result()""",
}

IN_PYTHON_COMPILING = """
started(); evenroll.evaluate("cartpole", episodes=10**9)"""

# Commands, and after how many of the processor's seconds the interrupt comes (or after six times as many by the clock).
COMMANDS: dict[str, tuple[list[str], list[float]]] = {
    "evaluate, loading": (["evaluate", "gridworld", "--episodes", "1000000000"], [0.02, 0.1, 0.2, 0.3, 0.4, 0.5]),
    "evaluate, running": (["evaluate", "gridworld", "--episodes", "1000000000"], [2.0, 4.0, 6.0]),
    "evaluate cartpole": (["evaluate", "cartpole", "--episodes", "1000000000"], [3.0, 6.0]),
    "collect": (
        ["collect", "CartPole-v1", "--policy", "POLICY", "--episodes", "100000", "--out", "OUT/a.parquet"],
        [4.0, 7.0],
    ),
    "value": (["value", "cartpole", "--episodes", "1000000000"], [3.0, 5.0]),
    "compare": (["compare", "cartpole", "--method", "os/mc", "--method", "auto/fqe", "--trials", "1000"], [4.0, 8.0]),
    "compare, processes": (
        ["compare", "gridworld", "--method", "os/mc", "--trials", "100000", "--executor", "processes"],
        [2.0, 5.0, 9.0],
    ),
    "coverage": (["coverage", "cartpole", "--repeats", "100000"], [3.0, 6.0]),
    "fig14": (["reproduce", "fig14", "--quick", "--out", "OUT"], [2.0, 4.0, 6.0, 9.0, 13.0, 18.0]),
    "leaderboard": (["leaderboard", "--quick", "--domains", "gridworld", "--out", "OUT"], [3.0, 8.0]),
    "train": (["train", "cartpole", "--out", "OUT/policy.safetensors"], [3.0, 6.0]),
    "bench": (["bench"], [4.0, 9.0, 15.0]),
}
COMPILING = (["evaluate", "cartpole", "--episodes", "1000000000"], [1.5, 3.0, 5.0, 7.0, 9.0, 12.0, 15.0, 20.0, 25.0])


def ended(child: subprocess.Popen[str]) -> tuple[float, float, str]:
    """Interrupt a child. Returns the seconds until it has ended, the processor's seconds among them, and how it ended.

    On a machine that is shared with other work the second number tells what the first would be on one that is not.
    """
    if child.poll() is not None:
        return 0.0, 0.0, f"was over ({child.returncode})"
    before = used_by(child)
    child.send_signal(signal.SIGINT)
    started = time.perf_counter()
    while time.perf_counter() - started < PATIENCE:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            used = max(usage.ru_utime + usage.ru_stime - before, 0.0)
            return time.perf_counter() - started, used, f"exit {child.returncode}"
        time.sleep(0.005)
    child.kill()
    child.wait()
    return PATIENCE, PATIENCE, "killed"


def used_by(child: subprocess.Popen[str]) -> float:
    """The processor's seconds that a child has used so far, with those of its children that have ended."""
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(x) for x in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def start(command: list[str], place: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [word.replace("OUT", place).replace("POLICY", str(SHIPPED)) for word in command],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        cwd=place, env={**os.environ, "PYTHONPATH": str(Path("src").resolve()), **env},
    )  # fmt: skip


def of_command(command: list[str], moment: float, **env: str) -> tuple[float, float, str]:
    with tempfile.TemporaryDirectory() as place, start([*COMMAND, *command], place, **env) as child:
        end = time.perf_counter() + 6.0 * moment
        while child.poll() is None and used_by(child) < moment and time.perf_counter() < end:
            time.sleep(0.01)
        return ended(child)


def of_python(code: str, moment: float, **env: str) -> tuple[float, float, str]:
    with tempfile.TemporaryDirectory() as place, start([sys.executable, "-c", PRELUDE + code], place, **env) as child:
        assert child.stdout is not None
        if "started" not in child.stdout.readline():
            child.wait()
            return PATIENCE, PATIENCE, f"failed to start ({child.returncode})"
        time.sleep(moment)
        return ended(child)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    names = parser.parse_args().names
    signal.signal(signal.SIGINT, signal.default_int_handler)  # children of a job in the background would ignore it
    late = 0
    print("| work | Ctrl-C after | seconds until the end (of the processor) |\n|---|---|---|")

    def told(name: str, moments: list[float], results: list[tuple[float, float, str]]) -> None:
        nonlocal late
        late += sum(min(seconds, used) > LIMIT for seconds, used, _ in results)
        usual = ("exit 130", "exit 1", "exit -2")
        ends = " · ".join(
            f"{seconds:.2f} ({used:.2f})" + ("" if how in usual else f" ({how})") for seconds, used, how in results
        )
        print(f"| {name} | {' · '.join(f'{m:g}' for m in moments)} s | {ends} |", flush=True)

    for name, code in IN_PYTHON.items():
        if not names or name in names:
            moments = [0.05, 0.5, 1.5]
            told(name, moments, [of_python(code, moment) for moment in moments])
    for name, (command, moments) in COMMANDS.items():
        if not names or name in names:
            told(name, moments, [of_command(command, moment) for moment in moments])
    if not names or "compiling" in names:
        results = []
        for moment in COMPILING[1]:
            with tempfile.TemporaryDirectory() as cache:
                results.append(of_command(COMPILING[0], moment, NUMBA_CACHE_DIR=cache))
        told("evaluate, compiling with an empty cache", COMPILING[1], results)
        results, moments = [], [0.5, 2.0, 4.0, 7.0, 11.0]
        for moment in moments:
            with tempfile.TemporaryDirectory() as cache:
                results.append(of_python(IN_PYTHON_COMPILING, moment, NUMBA_CACHE_DIR=cache))
        told("evaluate in Python, compiling with an empty cache", moments, results)
    print(f"{late} ended later than after {LIMIT:g} s")
    raise SystemExit(1 if late else 0)


if __name__ == "__main__":
    main()
