"""Pools: whoever dies, the work is done or given up, and nothing outlives it."""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import evenroll.executors.pool as parallel
from evenroll.errors import EvenrollError, SpecError, WorkersLost
from evenroll.executors.pool import Pool, completed, get_pool, in_order
from tests.helpers import ROOT, square

CHAOS = ROOT / "tools" / "chaos.py"


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


def test_no_executor_is_made_for_nothing() -> None:
    def never() -> Any:
        raise AssertionError

    assert list(completed(square, [], Pool(never, lambda pool: 1))) == []


def test_no_more_is_asked_for_than_there_is_room() -> None:
    """Claims on blocks are taken as they are handed out: what waits must be few."""
    asked: list[int] = []

    def items() -> Any:
        for i in range(30):
            asked.append(i)
            yield i

    for number, _ in enumerate(completed(square, items(), get_pool(workers=2)), start=1):
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
        parallel._elsewhere(square, "something else", 2)
    assert parallel._elsewhere(square, parallel.fingerprint(), 2) == 4


def test_unknown_executors_are_one_clear_line() -> None:
    with pytest.raises(SpecError, match="known: threads, processes, dask://HOST:PORT, tls://HOST:PORT"):
        get_pool("slurm")


STOPPED = """
import os, signal, sys, threading, time
from evenroll.executors.pool import get_pool, in_order
from tests.executors.test_pool import _stop_oneself
if __name__ == "__main__":
    threading.Timer(float(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        in_order(_stop_oneself, [1, 2], get_pool("processes", 2))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def _stop_oneself(x: int) -> int:
    os.kill(os.getpid(), signal.SIGSTOP)
    return x


def test_ctrl_c_ends_a_driver_whose_workers_are_stopped(tmp_path: Path) -> None:
    """A stopped worker does not answer, so nobody may wait for it. It is killed, which needs no answer."""
    (tmp_path / "driver.py").write_text(STOPPED)
    after = 6.0
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    started = time.monotonic()
    driver = subprocess.Popen(
        [sys.executable, str(tmp_path / "driver.py"), str(after)], stdout=subprocess.PIPE, text=True, env=env
    )
    try:
        said = driver.communicate(timeout=30)[0]
    finally:
        driver.kill()
    assert said == "interrupted\n"
    assert time.monotonic() - started < after + 8.0  # of which importing the package takes most, on a busy machine 4 s


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


def test_chaos_short() -> None:
    """`make chaos` in small: drivers, workers, and a cluster with its scheduler killed; see tools/chaos.py."""
    pytest.importorskip("distributed")
    run = subprocess.run(
        [sys.executable, str(CHAOS), "--trials", "32", "--kills", "2", "--every", "3"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("32 of 32 trials, bytes equal, 0 blocks computed again") == 3


def test_chaos_leaves_no_driver_behind_when_it_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that hangs would hold the pipes of whoever waits for chaos, and that one would wait, too."""
    chaos = pytest.importorskip("tools.chaos")
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    monkeypatch.setattr(chaos, "driver", lambda *_: process)
    monkeypatch.setattr(chaos, "LIMIT", 0.1)
    with pytest.raises(AssertionError, match="hangs"):
        chaos.kill_workers(tmp_path, 2, 1, random.Random(0))
    assert process.poll() is not None


def test_threads_do_not_outlive_the_work() -> None:
    before = threading.active_count()
    in_order(square, range(20), get_pool(workers=4))
    assert threading.active_count() == before
