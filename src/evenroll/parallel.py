"""Work on several threads whose result does not depend on how many they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]


def default_workers() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def single_threaded_blas() -> threadpool_limits:
    """Within this context linear algebra stays on the thread that asks for it. Its own threads are no use for matrices
    as narrow as ours, fight with our threads, and change the last bits."""
    return threadpool_limits(1, user_api="blas")


def in_order(
    run: Callable[[Item], Result], items: Sequence[Item], workers: int | None = None, progress: Progress | None = None
) -> list[Result]:
    """run(item) for every item, results in their order."""
    results = []
    with single_threaded_blas(), ThreadPoolExecutor(workers or default_workers()) as pool:
        try:
            for result in pool.map(run, items):
                results.append(result)
                if progress is not None:
                    progress(len(results), len(items))
        except BaseException:  # an error, or Ctrl-C: what has not begun does not begin
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return results
