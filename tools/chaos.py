"""Kill what runs a study, for real, and look at what is left: `make chaos`.

    python tools/chaos.py                        everything: 20 kills of the driver, 20 of workers, a cluster under fire
    python tools/chaos.py --only workers --kills 3 --trials 24

A study of `--trials` trials is first run undisturbed, in one thread. Then it is run again in three ways, each from nothing:

    driver   the driver gets SIGKILL at random moments, and another driver is started that goes on
    workers  a random worker process of a running driver gets SIGKILL
    cluster  of a dask scheduler with 4 workers, one worker is killed every few seconds, and the scheduler once

After each way three things must hold. Every trial is there. The files have the bytes of the undisturbed run. No block that
was once stored was computed again: over all drivers together, each block was saved once. A block has two trials.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from evenroll.executors.pool import get_pool
from evenroll.study.blocks import SAMPLING_ERRORS, Block, Work
from evenroll.study.runner import ensure
from evenroll.study.store import Store

WORK = Work("gridworld", "ros", ("mc", *SAMPLING_ERRORS), (1.0, 64.0, 512.0, 4096.0, 8192.0))
PER_BLOCK = 2
LIMIT = 900  # seconds after which a run under fire counts as hanging


def blocks(trials: int) -> list[Block]:
    return [Block(WORK, first, PER_BLOCK) for first in range(0, trials, PER_BLOCK)]


def tree(directory: Path) -> dict[str, str]:
    """Every data file and a hash of its bytes."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(directory.glob("??/*.parquet"))}


def drive(directory: str, executor: str, trials: int) -> None:
    """The study, in this process. A line to `saved` after each block that was computed and stored."""
    saved = os.open(Path(directory) / "saved", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def done(block: Block, computed: bool) -> None:
        if computed:
            os.write(saved, f"{block.first}\n".encode())

    ensure(Store(directory), blocks(trials), pool=get_pool(executor, 2 if executor == "processes" else None), done=done)


def driver(directory: Path, executor: str, trials: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--drive", str(directory), executor, "--trials", str(trials)])


@contextlib.contextmanager
def ended(drivers: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Whoever gives up on its drivers, because one hangs or failed, leaves none of them behind."""
    try:
        yield
    finally:
        for process in drivers:
            if process.poll() is None:
                process.kill()
                process.wait()


def kill(process: int) -> bool:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def judge(name: str, directory: Path, whole: dict[str, str], trials: int, kills: int, started: float) -> bool:
    """Whether all trials are there, with the bytes of the undisturbed run, and none was saved twice."""
    saved = (directory / "saved").read_text().split()
    there = tree(directory)
    good = there == whole and not list(directory.glob("aside/*"))
    # a kill between the write and the note of it leaves a block stored that nobody has noted: fewer lines, never more
    twice = len(saved) - len(set(saved))
    print(
        f"{name:8} {kills} kills: {PER_BLOCK * len(there)} of {trials} trials, bytes "
        f"{'equal' if there == whole else 'DIFFER'}, {twice} blocks computed again, {time.perf_counter() - started:.0f} s",
        flush=True,
    )
    return good and twice == 0


def kill_drivers(directory: Path, trials: int, kills: int, rng: random.Random) -> int:
    """How many were killed. A driver lives for a moment or until it has stored a few blocks, whichever it is."""
    done, share = 0, max(len(blocks(trials)) // (kills + 1), 1)
    while True:
        process, started = driver(directory, "threads", trials), time.perf_counter()
        with ended([process]):
            aim = len(tree(directory)) + rng.randint(0, share)
            while process.poll() is None and (done == kills or len(tree(directory)) < aim):
                assert time.perf_counter() - started < LIMIT, "the run hangs"
                time.sleep(0.02)
            time.sleep(rng.uniform(0.0, 0.2))
            if process.poll() is None and done < kills:
                done += kill(process.pid)
                process.wait()
            elif process.wait(LIMIT) == 0:
                return done


def kill_workers(directory: Path, trials: int, kills: int, rng: random.Random) -> int:
    done, share, started = 0, max(len(blocks(trials)) // (kills + 1), 1), time.perf_counter()
    process = driver(directory, "processes", trials)
    me = psutil.Process(process.pid)
    aim = rng.randint(1, share)
    with ended([process]):
        while process.poll() is None:
            assert time.perf_counter() - started < LIMIT, "the run hangs"
            if done < kills and len(tree(directory)) >= aim:
                with contextlib.suppress(psutil.NoSuchProcess):
                    workers = [p for p in me.children() if "spawn_main" in " ".join(p.cmdline())]
                    if workers:
                        done += kill(rng.choice(workers).pid)
                        aim = len(tree(directory)) + rng.randint(1, share)
            time.sleep(rng.uniform(0.0, 0.05))
    assert process.returncode == 0, f"the driver ended with {process.returncode}"
    return done


class Cluster:
    """A scheduler and workers on this machine, loopback only; `tend` replaces those that are gone."""

    def __init__(self, workers: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.count = workers
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def tend(self) -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if self.scheduler is None or self.scheduler.poll() is not None:
            command = [*dask_command("scheduler"), "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
            self.scheduler = subprocess.Popen(command, **quiet)
        self.workers = [w for w in self.workers if w.poll() is None]
        while len(self.workers) < self.count:
            command = [
                *dask_command("worker"), f"tcp://127.0.0.1:{self.port}", "--host", "127.0.0.1", "--nthreads", "1",
                "--no-nanny", "--no-dashboard", "--death-timeout", "60",
            ]  # fmt: skip
            self.workers.append(subprocess.Popen(command, **quiet))

    def end(self) -> None:
        for process in (*self.workers, *([self.scheduler] if self.scheduler else [])):
            kill(process.pid)
            process.wait()


def dask_command(what: str) -> list[str]:
    return [sys.executable, "-m", f"distributed.cli.dask_{what}"]


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[Cluster]:
    it = Cluster(workers)
    it.tend()
    try:
        yield it
    finally:
        it.end()


def fire_at_cluster(directory: Path, trials: int, every: float, rng: random.Random) -> int:
    """A worker every few seconds, the scheduler once when a third is done."""
    killed, scheduler_due, started = 0, True, time.perf_counter()
    with cluster(4) as machines:
        process = driver(directory, f"dask://127.0.0.1:{machines.port}", trials)
        next_kill = None
        with ended([process]):
            while process.poll() is None:
                assert time.perf_counter() - started < LIMIT, "the run hangs"
                there = len(tree(directory))
                if there and next_kill is None:
                    next_kill = time.perf_counter() + every
                if scheduler_due and there >= len(blocks(trials)) // 3:
                    assert machines.scheduler is not None
                    killed += kill(machines.scheduler.pid)
                    machines.scheduler.wait()
                    scheduler_due = False
                elif next_kill is not None and time.perf_counter() > next_kill and machines.workers:
                    victim = rng.choice(machines.workers)
                    killed += kill(victim.pid)
                    victim.wait()
                    next_kill = time.perf_counter() + rng.uniform(0.5, 1.5) * every
                machines.tend()
                time.sleep(0.1)
        assert process.returncode == 0, f"the driver ended with {process.returncode}"
        assert not scheduler_due, "the scheduler was never killed"
    return killed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20, help="of the driver, and of workers")
    parser.add_argument("--every", type=float, default=4.0, help="seconds between kills on the cluster, about")
    parser.add_argument("--only", choices=("driver", "workers", "cluster"))
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--drive", nargs=2, metavar=("DIRECTORY", "EXECUTOR"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        drive(*given.drive, given.trials)
        return 0
    rng, good = random.Random(given.seed), True
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        started = time.perf_counter()
        ensure(Store(here / "whole"), blocks(given.trials), pool=get_pool(workers=1))
        whole = tree(here / "whole")
        print(f"alone    {given.trials} trials in {len(whole)} blocks, {time.perf_counter() - started:.0f} s", flush=True)
        for what, attack in (("driver", kill_drivers), ("workers", kill_workers), ("cluster", fire_at_cluster)):
            if given.only in (None, what):
                directory = here / what
                directory.mkdir()
                started = time.perf_counter()
                aimed = given.every if what == "cluster" else given.kills
                kills = attack(directory, given.trials, aimed, rng)  # type: ignore[operator]
                good &= judge(what, directory, whole, given.trials, kills, started)
                good &= what == "cluster" or kills == given.kills
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
