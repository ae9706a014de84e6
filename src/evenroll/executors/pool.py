"""Work in several places at once, whose result depends neither on how many they are nor on which of them die."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from importlib.metadata import version
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from evenroll.engine.blas import single_threaded_blas
from evenroll.engine.sources import sources_digest
from evenroll.errors import EvenrollError, SpecError, WorkersLost
from evenroll.text.specs import whole_number

Item = TypeVar("Item")
Result = TypeVar("Result")
CountProgress = Callable[[int, int], None]

TRIES = 5  # executors that may be lost one after another without a single result between
CONNECT = 30.0  # seconds to wait for a scheduler, which may be starting again


@dataclass(frozen=True)
class Pool:
    """Where work runs.

    make    a new executor: called at the start, and again when one is lost (a worker died, a scheduler went away)
    width   how many pieces of work it does at a time; asked whenever there may be room for more
    remote  the work goes to other processes: it must pickle, and they must run the code that this one runs
    lost    what a piece of work raises when its worker is gone, beside the two of concurrent.futures
    """

    make: Callable[[], Executor]
    width: Callable[[Executor], int]
    remote: bool = False
    lost: tuple[type[BaseException], ...] = ()


def get_pool(executor: str | Pool = "threads", workers: int | None = None) -> Pool:
    """A pool by name: threads, processes, or dask://HOST:PORT, whose workers are the scheduler's."""
    if isinstance(executor, Pool):
        return executor
    count = default_workers() if workers is None else whole_number("workers", workers, 1)
    if executor == "threads":
        return Pool(lambda: ThreadPoolExecutor(count), lambda pool: count)
    if executor == "processes":
        return Pool(lambda: _processes(count), lambda pool: count, remote=True)
    if executor.startswith("dask://") and executor != "dask://":
        return _dask(executor.removeprefix("dask://"), workers)
    raise SpecError(f"unknown executor {executor!r}; known: threads, processes, dask://HOST:PORT")


def default_workers() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def in_order(
    run: Callable[[Item], Result], items: Sequence[Item], pool: Pool, progress: CountProgress | None = None
) -> list[Result]:
    """run(item) for every item, results in their order."""
    results: dict[int, Result] = {}
    for (i, _), result in completed(functools.partial(_second, run), enumerate(items), pool):
        results[i] = result
        if progress is not None:
            progress(len(results), len(items))
    return [results[i] for i in range(len(items))]


def completed(run: Callable[[Item], Result], items: Iterable[Item], pool: Pool) -> Iterator[tuple[Item, Result]]:
    """(item, run(item)) as they come. Items are asked for when there is room for them; what was in flight when an
    executor was lost is done again by the next."""
    fresh = iter(items)
    again = list(itertools.islice(fresh, 1))
    if not again:
        return  # no executor for nothing
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
                    except (RuntimeError, BrokenExecutor) as error:  # it was lost before anyone looked
                        again.append(item)
                        trouble = error
                if not flying and trouble is None:
                    return
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
    finally:  # after an error or Ctrl-C too: what has not begun does not begin
        executor.shutdown(wait=True, cancel_futures=True)


def _second(run: Callable[[Item], Result], pair: tuple[int, Item]) -> Result:
    return run(pair[1])


# ---- other processes -----------------------------------------------------------------------------------------


@functools.cache
def fingerprint() -> str:
    """Of all that runs here: our sources, and what does the arithmetic. Equal fingerprints, equal numbers."""
    libraries = [f"{name} {version(name)}" for name in ("numpy", "numba", "scipy")]
    return " ".join([sources_digest(), sys.version.split()[0], *libraries])


def _elsewhere(run: Callable[[Item], Result], expected: str, item: Item) -> Result:
    """run(item) in a worker, if the worker is one of us."""
    if fingerprint() != expected:
        raise EvenrollError("a worker runs another evenroll, Python or numpy than this process: install the same lock file")
    _one_blas_thread()
    return run(item)


@functools.cache
def _one_blas_thread() -> threadpool_limits:
    return single_threaded_blas()


def _processes(count: int) -> Executor:
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _worker_begins)


def _worker_begins() -> None:
    """Ctrl-C is the driver's business; and when the driver is killed its workers end too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _same_code(client: Any) -> None:
    """A scheduler unpacks what it hands on, so it must be one of us too."""
    try:
        if client.run_on_scheduler(fingerprint) == fingerprint():
            return
    except ImportError:
        pass
    client.close()
    raise EvenrollError("the dask scheduler has not the same evenroll, Python and numpy: install the same lock file there")


def _dask(address: str, workers: int | None) -> Pool:
    """The workers of a dask scheduler; `workers` limits how many of them are used at a time."""
    try:
        from distributed import Client, KilledWorker
        from distributed.cfexecutor import ClientExecutor
        from distributed.comm.core import CommClosedError
    except ModuleNotFoundError:
        raise EvenrollError("dask:// needs dask.distributed: pip install 'evenroll[dask]'") from None

    class OnCluster(ClientExecutor):
        """The client's own executor, which closes the client with itself."""

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):
                super().shutdown(wait=wait and not cancel_futures)
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):
                self._client.close(timeout=5)

    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # a scheduler that went away is our business

    def make() -> Executor:
        end = time.monotonic() + CONNECT
        while True:
            try:
                client = Client(f"tcp://{address}", timeout=5.0, set_as_default=False)
                _same_code(client)
                return OnCluster(client, pure=False)
            except (OSError, TimeoutError, ValueError) as error:
                if time.monotonic() > end or isinstance(error, ValueError):
                    raise EvenrollError(f"no dask scheduler answers at {address}: {error}") from None
                time.sleep(0.5)

    def width(executor: Any) -> int:
        try:
            threads = sum(executor._client.nthreads().values())
        except (OSError, TimeoutError, RuntimeError):
            return 1
        return min(threads, workers or threads)

    return Pool(make, width, remote=True, lost=(KilledWorker, CommClosedError))
