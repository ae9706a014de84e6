"""Kill what collects episodes for one evaluation, for real, and compare what is left with an undisturbed run.

    python tools/chaos_workers.py                                   200 episodes; the driver, processes, a dask cluster
    python tools/chaos_workers.py --episodes 40 --kills 2 --only workers

An evaluation of `--episodes` episodes, whose simulator takes a while, is first run undisturbed. Then three ways, each from
nothing, with a spool:

    driver   the driver gets SIGKILL at random moments, and another one goes on with the same spool
    workers  a random worker process of a running driver gets SIGKILL, a few seconds after the first block since the last
             one: workers that die five times without a block between them end the run, as they should
    cluster  of a dask scheduler with 4 workers, one is killed every few seconds, and the scheduler once

After each, the files of the spool and the result have the bytes of the undisturbed run. No episode that was once in the
spool was collected again: over all drivers, each block was written once.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import psutil

import evenroll
from evenroll.domains.catalogue import get_domain
from evenroll.evaluation.spool import Spool

sys.path.insert(0, str(Path(__file__).parent))
from chaos import cluster, ended, kill

LIMIT = 1800  # seconds after which a run under fire counts as hanging


class Slow(gym.Wrapper):  # type: ignore[type-arg]
    def reset(self, **options: Any) -> Any:
        time.sleep(0.1)
        return super().reset(**options)


def slow() -> Any:
    return Slow(gym.make("evenroll/CartPole-v0"))


def drive(spool: str, executor: str, episodes: int) -> None:
    """The evaluation, in this process. A line to `saved` after each block that was written."""
    save, told = Spool.save, os.open(Path(spool) / "saved", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def saving(self: Spool, block: Any, *rest: Any) -> None:
        save(self, block, *rest)
        os.write(told, f"{block.first}\n".encode())

    Spool.save = saving  # type: ignore[method-assign]
    found = evenroll.evaluate(
        "chaos_workers:slow", get_domain("cartpole").policy(), episodes=episodes, gamma=0.99, resets=50, spool=spool,
        executor=executor, workers=2 if executor in ("threads", "processes") else None,
    )  # fmt: skip
    (Path(spool) / "result").write_text(repr(sorted(found.to_json().items())))


def driver(spool: Path, executor: str, episodes: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--drive", str(spool), executor, "--episodes", str(episodes)]
    return subprocess.Popen(command)


def tree(spool: Path) -> dict[str, str]:
    names = (*spool.glob("block-*"), *spool.glob("*.json"), *spool.glob("result"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(names)}


def blocks(spool: Path) -> int:
    return len(list(spool.glob("block-*")))


def fire(what: str, spool: Path, episodes: int, kills: int, every: float, rng: random.Random) -> int:
    """Run one evaluation under fire. Returns how many processes were killed."""
    killed, started = 0, time.monotonic()
    drivers: list[subprocess.Popen[bytes]] = []
    with cluster(4) if what == "cluster" else contextlib.nullcontext() as machines, ended(drivers):
        executor = {"driver": "threads", "workers": "processes"}.get(what) or f"dask://127.0.0.1:{machines.port}"
        process, scheduler_due, due = driver(spool, executor, episodes), what == "cluster", None
        drivers.append(process)
        seen = 0  # blocks that were there at the last kill of a process
        while True:
            assert time.monotonic() - started < LIMIT, "the run hangs"
            if process.poll() is not None:
                if process.returncode == 0:
                    break
                assert what == "driver", f"the driver ended with {process.returncode}"
                process, due = driver(spool, executor, episodes), None
                drivers.append(process)
            if due is None and blocks(spool) > seen:
                due = time.monotonic() + rng.uniform(0.2, 1.0) * every
            if due is not None and time.monotonic() > due and (killed < kills or what == "cluster"):
                due = time.monotonic() + rng.uniform(0.5, 1.5) * every
                if what == "driver":
                    killed += kill(process.pid)
                elif what == "workers":
                    children = psutil.Process(process.pid).children()
                    victims = [child.pid for child in children if "spawn_main" in " ".join(child.cmdline())]
                    if victims:
                        killed, due, seen = killed + kill(rng.choice(victims)), None, blocks(spool)
                elif scheduler_due and blocks(spool) > episodes // 3 and machines.scheduler is not None:
                    killed, scheduler_due = killed + kill(machines.scheduler.pid), False
                    machines.scheduler.wait()
                elif machines.workers:
                    victim = rng.choice(machines.workers)
                    killed += kill(victim.pid)
                    victim.wait()
            if what == "cluster":
                machines.tend()
            time.sleep(0.05)
        assert not scheduler_due, "the scheduler was never killed"
    return killed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20, help="of the driver, and of worker processes")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between kills, about")
    parser.add_argument("--only", choices=("driver", "workers", "cluster"))
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--drive", nargs=2, metavar=("SPOOL", "EXECUTOR"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        Path(given.drive[0]).mkdir(exist_ok=True)
        drive(*given.drive, given.episodes)
        return 0
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])  # also for dask
    rng, good = random.Random(given.seed), True
    with tempfile.TemporaryDirectory() as name:
        here, started = Path(name), time.monotonic()
        assert driver(here / "whole", "threads", given.episodes).wait() == 0
        whole = tree(here / "whole")
        print(f"alone    {given.episodes} episodes, {time.monotonic() - started:.0f} s", flush=True)
        for what in ("driver", "workers", "cluster"):
            if given.only in (None, what):
                started = time.monotonic()
                killed = fire(what, here / what, given.episodes, given.kills, given.every, rng)
                saved = (here / what / "saved").read_text().split()
                same, twice = tree(here / what) == whole, len(saved) - len(set(saved))
                good &= same and twice == 0 and killed > 0
                print(
                    f"{what:8} {killed} kills, bytes {'equal' if same else 'DIFFER'}, {twice} blocks written twice, "
                    f"{time.monotonic() - started:.0f} s", flush=True,
                )  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
