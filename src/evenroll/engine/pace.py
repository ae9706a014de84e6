"""How much a compiled call may do at a time. Python looks for Ctrl-C only between calls, so none may take long.

How long a step takes is not known beforehand: a table takes 50 ns, a wide network a thousand times as much, and now and
then a sampler inverts a matrix. So the first call is small, later ones grow while they are quick, and after a slow one the
growth begins anew. The results do not depend on where the work is cut.
"""

from __future__ import annotations

import contextvars
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

LONGEST = 0.2  # seconds that a call is meant to take at most; Ctrl-C then ends within a second on a busy machine, too
FIRST = 1 << 25  # numbers that the first call works on: some milliseconds
UNCUT = 400 * 400  # numbers of a matrix whose eigenvalues take less than 0.1 s
MOST = 1 << 14  # steps of the first call


class Pace:
    """How many steps the next compiled call may take.

    size  how many numbers a step may work on at most: weights, and what a sampler remembers
    """

    def __init__(self, size: int) -> None:
        self.first = self.steps = min(max(FIRST // max(size, 1), 1), MOST)

    def took(self, seconds: float) -> None:
        """Learn how long the last call took."""
        if seconds > LONGEST:
            self.steps = self.first
        elif seconds < LONGEST / 2:
            self.steps *= 2


@contextmanager
def insisting() -> Iterator[None]:
    """In here an interrupt that somebody swallows is raised again at the end.

    Python raises it at once, as ever; but the compiler ignores exceptions in places (callbacks, objects being deleted), and
    a script would go on as if nothing had been said. Whoever has a handler of their own keeps it.
    """
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    heard = []

    def note(number: int, frame: Any) -> None:
        heard.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if heard:
        raise KeyboardInterrupt


def patiently(function: Any, *arrays: np.ndarray) -> Any:
    """function(arrays …), a piece of linear algebra that cannot be cut, so that Ctrl-C is heard while it is at work.

    Where the arrays are large and signals come to this thread, another thread does the work, and this one waits. After an
    interrupt nobody looks at its result.
    """
    return function(*arrays) if max(x.size for x in arrays) < UNCUT else beside(function, *arrays)


def beside(function: Any, *arguments: Any) -> Any:
    """function(arguments …) by another thread, while this one waits, if it is the one that signals come to.

    Python raises a KeyboardInterrupt only between two steps of the main thread, so one that is in the middle of machine code
    for seconds hears nothing. One that waits does. After an interrupt nobody looks at the result.
    """
    if threading.current_thread() is not threading.main_thread() or _importing():
        return function(*arguments)
    results: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            results.append((function(*arguments), None))
        except BaseException as error:
            results.append((None, error))

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True)
    thread.start()
    thread.join()
    result, error = results[0]
    if error is not None:
        raise error
    return result


def _importing() -> bool:
    """Whether a module is being imported here. Its lock is ours then, and a thread that needs it would wait for us."""
    frame = sys._getframe()
    while frame.f_back is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def in_parts(rows: int, size: int, block: int = 1) -> Iterator[tuple[int, int]]:
    """Where to cut work on so many rows: the first row of each part, and the first after it.

    block  parts have a multiple of so many rows, but for the last
    """
    pace, first = Pace(size), 0
    while first < rows:
        last, started = min(first + -(-pace.steps // block) * block, rows), time.perf_counter()
        yield first, last
        pace.took(time.perf_counter() - started)
        first = last
