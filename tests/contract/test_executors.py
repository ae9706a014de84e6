"""What every executor must obey: order, errors as they are, the same numbers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import evenroll.executors.pool as parallel
from evenroll.errors import SpecError
from evenroll.executors.pool import Pool, get_pool, in_order
from evenroll.study import compare
from evenroll.study.coverage import coverage
from evenroll.study.leaderboard import leaderboard
from tests.helpers import square


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
        assert in_order(square, range(9), pool, lambda done, total: seen.append((done, total))) == [x * x for x in range(9)]
    assert seen == 3 * [(i, 9) for i in range(1, 10)]


def test_an_error_of_the_work_arrives_as_it_is_and_ends_the_rest(processes: Pool) -> None:
    for pool in (get_pool(workers=2), processes):
        with pytest.raises(SpecError, match="-3 is negative"):
            in_order(square, [1, 2, -3, *range(50)], pool)


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
