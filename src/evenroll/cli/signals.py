"""Signals that ask a command to stop: Ctrl-C (SIGINT), SIGTERM, and SIGHUP from a terminal that was closed.

Before there is anything to lose, one ends the process at once. From `raise_from_now_on` on, one is raised as a
KeyboardInterrupt, so that what was collected can be printed and kept. Whoever started the command with a signal ignored
(nohup, a background job) is not contradicted.

Python runs a handler only between two steps of the main thread, which may be in the midst of machine code, or lose what the
handler raises. So a thread hears of signals as well, through a pipe. It ends the process where nothing can be lost, and
elsewhere it sees to it that the main thread takes notice.

This module imports nothing of the package and nothing that takes time: it is loaded before everything else.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
ECHO = 1.0  # seconds in which another signal is the same request: shells, service managers and people repeat it; a choice
INSISTENT = 3  # signals that come while data is being written, of which the last is heard

NOTICE = 0.4  # seconds after which an interrupt that nobody handles is raised again
GRACE = 0.6  # seconds that a command which keeps nothing has to tidy up; then it is ended

_received: list[tuple[int, float]] = []  # the signals so far, and when they came
_leaving = threading.Lock()  # whoever has it ends the process
_watched: list[int] = []  # the pipe's end for reading, once there is a thread that reads it
_kept_from: list[int] = []  # while data is being written: how many signals had come when that began
_lost: list[int] = []  # the signal that is raised again because nobody took notice of it


def exit_at_once() -> None:
    """From now on a signal ends the process, with one word and no traceback."""
    _install(_exit)


def raise_from_now_on(keeps: bool = False) -> None:
    """From now on a signal raises KeyboardInterrupt in the main thread.

    keeps  whether the command will want to write what it has collected. One that does not is ended if it takes long.
    """
    _install(_raise if keeps else _raise_and_leave)


@contextmanager
def undisturbed() -> Iterator[None]:
    """While data is being written, a signal is the request that is being fulfilled; only the third in a row is heard."""
    _kept_from[:] = [len(_received)]
    try:
        yield
    finally:
        _kept_from.clear()


def exit_code() -> int:
    """128 and the number of the first signal, as shells have it: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + (_received[0][0] if _received else signal.SIGINT)


def leave_if_interrupted() -> None:
    """After a signal, end the process without waiting for threads that are still computing what nobody wants any more."""
    if _received:
        _flush()
        os._exit(exit_code())


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def _install(handler: Callable[[int, FrameType | None], None]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # elsewhere signals cannot be caught
    ours = (_exit, _raise, _raise_and_leave, signal.SIG_DFL, signal.default_int_handler)
    for number in SIGNALS:
        if signal.getsignal(number) in ours:
            signal.signal(number, handler)
    if not _watched:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)  # in a command nobody else has one
        if hasattr(os, "register_at_fork"):  # a child that is told to end must not end its parent through our pipe
            os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        _watched.append(reading)
        threading.Thread(target=_watch, args=(reading,), daemon=True).start()


def _exit(number: int, frame: FrameType | None) -> None:
    if _leaving.acquire(blocking=False):
        os.write(2, b"interrupted\n")
        os._exit(128 + number)


def _raise(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    again = bool(_received) and now - _received[-1][1] < ECHO
    _received.append((number, now))
    if _kept_from and len(_received) < _kept_from[0] + INSISTENT:
        return
    if _lost or not again:
        _lost.clear()
        raise KeyboardInterrupt


def _raise_and_leave(number: int, frame: FrameType | None) -> None:
    _raise(number, frame)


def _watch(pipe: int) -> None:
    """Read the numbers of signals that have come, and see to it that each is heard."""
    while True:
        for number in os.read(pipe, 1):
            handler = signal.getsignal(number)
            if handler is _exit:
                _exit(number, None)
            elif handler is _raise:
                _insist(number)
            elif handler is _raise_and_leave:
                time.sleep(GRACE)
                _end(number)


def _end(number: int) -> None:
    """End the process and its children, whatever the main thread is doing."""
    if _leaving.acquire(blocking=False):
        children = getattr(sys.modules.get("multiprocessing"), "active_children", list)
        with suppress(Exception):
            for child in children():
                child.kill()
        flushing = threading.Thread(target=_flush, daemon=True)  # the main thread may be in the midst of writing
        flushing.start()
        flushing.join(0.2)
        show_cursor = b"\x1b[?25h\r\x1b[K" if os.isatty(2) else b""  # a progress bar hides it
        os.write(2, show_cursor + b"interrupted\n")
        os._exit(128 + number)


def _insist(number: int) -> None:
    """Raise the interrupt again until somebody takes notice of it.

    A KeyboardInterrupt is lost where Python ignores exceptions: when it happens to be raised while an object is being
    deleted, or in a callback. Whoever has noticed it is handling it, or something that went wrong meanwhile.
    """
    main = threading.main_thread().ident
    while signal.getsignal(number) is _raise:
        time.sleep(NOTICE)
        found = sys._current_exceptions().get(main) if main is not None else None
        handled = found[1] if isinstance(found, tuple) else found  # Python before 3.12 gives three things
        while handled is not None:
            if isinstance(handled, KeyboardInterrupt):
                return
            handled = handled.__context__
        if _received:  # otherwise the main thread is still in the midst of something, and will hear of the first one
            _lost[:] = [number]
            _thread.interrupt_main(signal.Signals(number))
