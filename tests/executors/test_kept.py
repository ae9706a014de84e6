"""An executor that outlives a round of work: made once, made again when it is lost, and gone when it is closed."""

from __future__ import annotations

import functools
import os
import signal
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from evenroll.errors import SpecError
from evenroll.executors.kept import KeptPool
from evenroll.executors.pool import Pool, get_pool, in_order
from tests.helpers import square


def _worker(marker: str, x: int) -> int:
    """The process that works; the first that is asked for 3 dies."""
    if x == 3:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            pass
    return os.getpid()


def test_one_executor_does_all_rounds() -> None:
    made: list[Executor] = []

    def make() -> Executor:
        made.append(ThreadPoolExecutor(2))
        return made[-1]

    kept = KeptPool(Pool(make, lambda executor: 2 if executor is made[-1] else 0))
    for _ in range(3):
        assert in_order(square, range(4), kept.pool) == [0, 1, 4, 9]
    assert len(made) == 1
    with pytest.raises(SpecError, match="negative"):
        in_order(square, [-1], kept.pool)
    assert in_order(square, [2], kept.pool) == [4]  # an error gives the executor up, and the next round has a new one
    assert len(made) == 2
    kept.close()
    with pytest.raises(RuntimeError):
        made[-1].submit(square, 1)


def test_processes_are_kept_and_replaced_when_one_dies(tmp_path: Path) -> None:
    kept, run = KeptPool(get_pool("processes", 1)), functools.partial(_worker, str(tmp_path / "died"))
    first, second = in_order(run, [1], kept.pool), in_order(run, [2], kept.pool)
    assert first == second
    third = in_order(run, [3, 4], kept.pool)
    assert (tmp_path / "died").exists()
    assert third[0] == third[1] != first[0]
    kept.close()
    for _ in range(200):
        if not Path(f"/proc/{third[0]}").exists():
            return
        time.sleep(0.05)
    raise AssertionError("the worker lives on")
