"""The same numbers wherever work runs, and whoever dies: threads, processes, a dask cluster on this machine."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenroll.executors.pool as parallel
from evenroll.errors import EvenrollError, SpecError, WorkersLost
from evenroll.executors.pool import Pool, completed, get_pool, in_order
from evenroll.study import compare
from evenroll.study.blocks import Block, Work
from evenroll.study.coverage import coverage
from evenroll.study.leaderboard import leaderboard
from evenroll.study.runner import ensure
from evenroll.study.store import Store

CHAOS = Path(__file__).parents[1] / "tools" / "chaos.py"


def _square(x: int) -> int:
    if x < 0:
        raise SpecError(f"{x} is negative")
    return x * x


def _square_once_alive(marker: str, x: int) -> int:
    """The first to come here dies."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return x * x
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _die(x: int) -> int:
    os._exit(1)


@pytest.fixture(scope="module")
def processes() -> Pool:
    """One pool of processes for several tests: starting them is what takes time."""
    executor = parallel._processes(2)
    kept = _Kept(executor)
    yield Pool(lambda: kept, lambda pool: 2, remote=True)
    executor.shutdown()


class _Kept(ThreadPoolExecutor):
    """An executor that outlives those who use it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def submit(self, *args: Any) -> Any:
        return self.inner.submit(*args)

    def shutdown(self, *args: Any, **options: Any) -> None:
        pass


def test_results_come_in_order_from_threads_and_processes(processes: Pool) -> None:
    seen: list[tuple[int, int]] = []
    for pool in (get_pool(workers=1), get_pool(workers=7), processes):
        assert in_order(_square, range(9), pool, lambda done, total: seen.append((done, total))) == [x * x for x in range(9)]
    assert seen == 3 * [(i, 9) for i in range(1, 10)]


def test_an_error_of_the_work_arrives_as_it_is_and_ends_the_rest(processes: Pool) -> None:
    for pool in (get_pool(workers=2), processes):
        with pytest.raises(SpecError, match="-3 is negative"):
            in_order(_square, [1, 2, -3, *range(50)], pool)


def test_no_executor_is_made_for_nothing() -> None:
    def never() -> Any:
        raise AssertionError

    assert list(completed(_square, [], Pool(never, lambda pool: 1))) == []


def test_no_more_is_asked_for_than_there_is_room() -> None:
    """Claims on blocks are taken as they are handed out: what waits must be few."""
    asked: list[int] = []

    def items() -> Any:
        for i in range(30):
            asked.append(i)
            yield i

    for number, _ in enumerate(completed(_square, items(), get_pool(workers=2)), start=1):
        assert len(asked) <= number + 5


def test_a_pool_broken_by_a_dead_worker_is_made_again(tmp_path: Path) -> None:
    run = functools.partial(_square_once_alive, str(tmp_path / "died"))
    assert in_order(run, range(6), get_pool("processes", 2)) == [x * x for x in range(6)]
    assert (tmp_path / "died").exists()


def test_work_that_always_kills_its_worker_is_given_up() -> None:
    with pytest.raises(WorkersLost, match="died 5 times"):
        in_order(_die, [1], get_pool("processes", 1))


def test_a_worker_with_other_code_is_refused() -> None:
    with pytest.raises(EvenrollError, match="another evenroll"):
        parallel._elsewhere(_square, "something else", 2)
    assert parallel._elsewhere(_square, parallel.fingerprint(), 2) == 4


def test_unknown_executors_and_absent_schedulers_are_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="known: threads, processes, dask://HOST:PORT"):
        get_pool("slurm")
    pytest.importorskip("distributed")
    monkeypatch.setattr(parallel, "CONNECT", 0.1)
    with pytest.raises(EvenrollError, match=r"no dask scheduler answers at 127.0.0.1:1"):
        in_order(_square, [1], get_pool("dask://127.0.0.1:1"))


def test_compare_coverage_and_leaderboard_are_the_same_in_processes(processes: Pool) -> None:
    """Networks too: addresses of compiled code and the alignment of weights must not travel."""
    methods = ["os/mc", "init+auto/mc", "ros/wris"]
    one, other = (compare("cartpole", methods, trials=3, budget=8, executor=e).to_json() for e in ("threads", processes))
    one.pop("seconds")
    other.pop("seconds")
    assert one == other
    runs = [coverage("gridworld", "auto/score", episodes=40, repeats=6, executor=e) for e in ("threads", processes)]
    assert runs[0] == runs[1]
    boards = [
        leaderboard(["gridworld"], methods=["os/mc", "auto/mc"], budgets=(8,), trials=4, executor=e)
        for e in ("threads", processes)
    ]
    for row, same in zip(boards[0][0].rows, boards[1][0].rows, strict=True):
        np.testing.assert_array_equal(row.mse, same.mse)


def test_workers_end_when_their_driver_is_killed(tmp_path: Path) -> None:
    """Without a parent to answer to they would wait for ever."""
    script = tmp_path / "driver.py"
    script.write_text(
        "import os, sys, time\n"
        "from evenroll.executors.pool import _processes\n"
        "if __name__ == '__main__':\n"
        "    pool = _processes(1)\n"
        "    print(pool.submit(os.getpid).result(), flush=True)\n"
        "    time.sleep(60)\n"
    )
    driver = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    worker = int(driver.stdout.readline())
    assert Path(f"/proc/{worker}").exists()
    driver.kill()
    driver.wait()
    for _ in range(100):
        if not Path(f"/proc/{worker}").exists():
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    raise AssertionError("the worker outlived its driver")


def test_a_claim_taken_away_between_is_no_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process opens the claim's file, its owner removes it: the lock on what is left of it protects nothing."""
    store, block = Store(tmp_path), Block(Work("gridworld", "os", ("mc",), (1.0,)), 0, 1)
    import fcntl

    held = store.claim(block)
    assert held is not None
    assert store.claim(block) is None
    true_lock = fcntl.flock

    def lock_after_release(handle: int, how: int) -> None:
        held.release()
        true_lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", lock_after_release)
    assert store.claim(block) is None
    monkeypatch.undo()
    again = store.claim(block)
    assert again is not None
    again.release()


def _in_a_child(run: Any, *arguments: Any) -> str:
    """What `run` says, in a process of its own (limits and users do not come back)."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def child() -> None:
        try:
            run(*arguments)
            theirs.send("nothing")
        except BaseException as error:
            theirs.send(f"{type(error).__name__}: {error}")

    process = context.Process(target=child)
    process.start()
    said = ours.recv() if ours.poll(60) else "silence"
    process.join()
    return str(said)


BLOCKS = [Block(Work("gridworld", "os", ("mc",), (1.0, 16.0)), 2 * i, 2) for i in range(6)]


def _with_small_files(store: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ensure(Store(store), BLOCKS, pool=get_pool(workers=1))


def _as_nobody(store: str) -> None:
    if os.getuid() == 0:
        os.setuid(65534)
    ensure(Store(store), BLOCKS, pool=get_pool(workers=1))


def test_a_full_disk_and_a_read_only_store_are_said_and_cost_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ensure(Store(store), BLOCKS[:3], pool=get_pool(workers=1))
    before = {p: p.read_bytes() for p in store.rglob("*.parquet")}
    said = _in_a_child(_with_small_files, str(store))
    assert said.startswith("EvenrollError: cannot write")
    assert "\n" not in said
    assert not list(store.rglob(".*")), "no half-written file is left"
    for path in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        path.chmod(0o755)
    for path in (store, *(p for p in store.rglob("*") if p.is_dir())):
        path.chmod(0o555)
    said = _in_a_child(_as_nobody, str(store))
    for path in (store, *(p for p in store.rglob("*") if p.is_dir())):
        path.chmod(0o755)
    assert said.startswith("EvenrollError: cannot")
    assert {p: p.read_bytes() for p in store.rglob("*.parquet")} == before
    counts = {True: 0, False: 0}

    def done(block: Block, computed: bool) -> None:
        counts[computed] += 1

    ensure(Store(store), BLOCKS, pool=get_pool(workers=2), done=done)
    assert counts == {True: 3, False: 3}


def test_chaos_short() -> None:
    """`make chaos` in small: drivers, workers, and a cluster with its scheduler killed; see tools/chaos.py."""
    pytest.importorskip("distributed")
    run = subprocess.run(
        [sys.executable, str(CHAOS), "--trials", "16", "--kills", "2", "--every", "3"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("16 of 16 trials, bytes equal, 0 blocks computed again") == 3


def test_executor_on_the_command_line(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "evenroll", "compare", "bandit", "--method", "os/mc", "--trials", "4", "--budget", "8"]
    found = []
    for executor in ("threads", "processes"):
        path = tmp_path / f"{executor}.json"
        subprocess.run([*run, "--executor", executor, "--json", str(path)], check=True, capture_output=True)
        found.append(json.loads(path.read_text())["methods"])
    assert found[0] == found[1]
    bad = subprocess.run([*run, "--executor", "carrier-pigeon"], capture_output=True, text=True)
    assert bad.returncode == 2
    assert bad.stderr.count("\n") == 1


def test_threads_do_not_outlive_the_work() -> None:
    before = threading.active_count()
    in_order(_square, range(20), get_pool(workers=4))
    assert threading.active_count() == before
