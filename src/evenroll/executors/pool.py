"""Run many pieces of work at once. The results depend neither on the number of workers nor on which of them die."""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass
from typing import Any, TypeVar

from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import EvenrollError, SpecError, WorkersLost
from evenroll.executors.dask_cluster import SCHEMES, cluster
from evenroll.executors.fingerprint import fingerprint
from evenroll.text.specs import whole_number

Item = TypeVar("Item")
Result = TypeVar("Result")
CountProgress = Callable[[int, int], None]

# After this many lost executors in a row, without one result between them, the fault is in the work and not in a machine.
TRIES = 5


@dataclass(frozen=True)
class Pool:
    """A place where work runs, and how to make it anew when it is lost.

    make    makes an executor. It is called at the start, and again when a worker died or a scheduler went away.
    width   says how many pieces of work the executor does at a time. It is asked whenever there may be room for more.
    remote  is true if the work goes to other processes. Then it must pickle, and they must run the same code as this one.
    lost    lists what a piece of work raises when its worker is gone, beside the two exceptions of concurrent.futures.
    """

    make: Callable[[], Executor]
    width: Callable[[Executor], int]
    remote: bool = False
    lost: tuple[type[BaseException], ...] = ()


KNOWN = "threads, processes, dask://HOST:PORT, tls://HOST:PORT"


def get_pool(executor: str | Pool = "threads", workers: int | None = None) -> Pool:
    """The pool of this name: threads, processes, or the address of a dask scheduler, whose workers it uses.

    `dask_cluster.py` says which addresses there are, and whom each of them trusts.
    """
    if isinstance(executor, Pool):
        return executor
    count = default_workers() if workers is None else whole_number("workers", workers, 1)
    if executor == "threads":
        return Pool(lambda: ThreadPoolExecutor(count), lambda pool: count)
    if executor == "processes":
        return Pool(lambda: _processes(count), lambda pool: count, remote=True)
    scheme, separator, address = executor.partition("://")
    if separator and scheme in SCHEMES and address:
        return dask_pool(executor, None if workers is None else count)
    raise SpecError(f"unknown executor {executor!r}; known: {KNOWN}")


def dask_pool(address: str, workers: int | None = None, security: Any = None) -> Pool:
    """The workers of a dask scheduler. `workers` limits how many of them are used at a time.

    security  the certificates for tls:// as a `distributed.Security`; without it they are those of dask's configuration
    """
    scheme, _, place = address.partition("://")
    make, width, lost = cluster(scheme, place, workers, security)
    return Pool(make, width, remote=True, lost=lost)


def default_workers() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def in_order(
    run: Callable[[Item], Result], items: Sequence[Item], pool: Pool, progress: CountProgress | None = None
) -> list[Result]:
    """run(item) for every item, in the order of the items."""
    results: dict[int, Result] = {}
    with contextlib.closing(completed(functools.partial(_second, run), enumerate(items), pool)) as finished:
        for (i, _), result in finished:
            results[i] = result
            if progress is not None:
                progress(len(results), len(items))
    return [results[i] for i in range(len(items))]


def completed(
    run: Callable[[Item], Result], items: Iterable[Item], pool: Pool
) -> Generator[tuple[Item, Result], None, None]:
    """Pairs (item, run(item)), in the order in which they are finished.

    Who may stop in the midst closes it (`contextlib.closing`), so that its executor is given up at once.
    An item is taken from `items` only when there is room for it. What was in flight when an executor was lost is done
    again by the next executor.
    """
    fresh = iter(items)
    again = list(itertools.islice(fresh, 1))
    if not again:
        return  # without work no executor is started
    task: Callable[[Item], Result] = functools.partial(_elsewhere, run, fingerprint()) if pool.remote else run
    lost: tuple[type[BaseException], ...] = (BrokenExecutor, CancelledError, *pool.lost)
    flying: dict[Future[Result], Item] = {}
    lost_in_a_row = 0
    executor = pool.make()
    try:
        with single_threaded_blas():
            while True:
                trouble: BaseException | None = None
                while trouble is None and len(flying) < 2 * max(pool.width(executor), 1):
                    again = again or list(itertools.islice(fresh, 1))
                    if not again:
                        break
                    item = again.pop()
                    try:
                        flying[executor.submit(task, item)] = item
                    except (RuntimeError, BrokenExecutor) as error:  # the executor was lost before anyone looked
                        again.append(item)
                        trouble = error
                if not flying and trouble is None:
                    break
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    try:
                        result = future.result()
                    except lost as error:
                        trouble = error
                    else:
                        lost_in_a_row = 0
                        yield flying.pop(future), result
                if trouble is not None:
                    lost_in_a_row += 1
                    if lost_in_a_row >= TRIES:
                        raise WorkersLost(f"workers died {TRIES} times without finishing anything: {trouble}") from trouble
                    again += flying.values()
                    flying.clear()
                    executor.shutdown(wait=False, cancel_futures=True)
                    executor = pool.make()
    except BaseException:  # an error or Ctrl-C: nobody will want the rest, so nobody waits for it
        abandon(executor)
        raise
    executor.shutdown(wait=True, cancel_futures=True)


def abandon(executor: Executor) -> None:
    """Give up an executor at once. Its processes are killed, which also ends those that were stopped and cannot answer.

    Threads cannot be killed: what they have begun goes on until it is done, and nobody looks at it. An executor whose
    processes are dead is waited for, so that it hands back its semaphores; Python would complain of them at its end.
    """
    processes = list((getattr(executor, "_processes", None) or {}).values())
    for process in processes:
        process.kill()
    executor.shutdown(wait=bool(processes), cancel_futures=True)


def _second(run: Callable[[Item], Result], pair: tuple[int, Item]) -> Result:
    return run(pair[1])


# ---- other processes -----------------------------------------------------------------------------------------


def _elsewhere(run: Callable[[Item], Result], expected: str, item: Item) -> Result:
    """run(item) in a worker, which refuses if it does not run the same code as the process that asks."""
    if fingerprint() != expected:
        raise EvenrollError("a worker runs another evenroll, Python or numpy than this process: install the same lock file")
    _one_blas_thread()
    return run(item)


@functools.cache
def _one_blas_thread() -> object:
    return single_threaded_blas()


def _processes(count: int) -> Executor:
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _worker_begins)


def _worker_begins() -> None:
    """A worker leaves Ctrl-C to the driver, and it ends when the driver is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
