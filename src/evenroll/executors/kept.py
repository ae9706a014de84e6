"""A pool whose executor outlives a round of work: starting processes, and the libraries in them, takes seconds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from evenroll.executors.pool import Pool, abandon


class _Kept(Executor):
    """An executor that is not shut down when a round of work is done, but only when it is lost or given up."""

    def __init__(self, inner: Executor) -> None:
        self.inner, self.lost = inner, False

    @property
    def _processes(self) -> Any:
        """Those of the executor inside, for `pool.abandon`, which kills them."""
        return getattr(self.inner, "_processes", None)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self.inner.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """`pool.completed` waits at the end of a round, and does not wait for an executor that was lost."""
        if not wait:
            self.lost = True
            self.inner.shutdown(wait=False, cancel_futures=cancel_futures)


class KeptPool:
    """A pool to be used for one round of work after the other (`pool`), and to be closed at the end."""

    def __init__(self, pool: Pool) -> None:
        self._make, self._executor = pool.make, None
        self.pool = Pool(self._current, lambda kept: pool.width(kept.inner), pool.remote, pool.lost)  # type: ignore[attr-defined]

    _executor: _Kept | None

    def _current(self) -> Executor:
        if self._executor is None or self._executor.lost:
            self._executor = _Kept(self._make())
        return self._executor

    def close(self) -> None:
        """Give up the executor. Nobody waits for what it may still be doing."""
        if self._executor is not None and not self._executor.lost:
            with contextlib.suppress(OSError, RuntimeError):
                abandon(self._executor)
        self._executor = None
