"""Signals that ask a command to stop: Ctrl-C (SIGINT), SIGTERM, and SIGHUP from a terminal that was closed.

Before there is anything to lose, one ends the process at once. From `raise_from_now_on` on, one is raised as a
KeyboardInterrupt, so that what was collected can be printed and kept. Whoever started the command with a signal ignored
(nohup, a background job) is not contradicted.

This module imports nothing of the package and nothing that takes time: it is loaded before everything else.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
ECHO = 1.0  # seconds in which another SIGTERM or SIGHUP is the same request: shells and service managers repeat it; a choice

NOTICE, TRIES = 0.4, 5  # seconds after which an interrupt that nobody handles is raised again, and how often

_received: list[tuple[int, float]] = []  # the signals so far, and when they came


def exit_at_once() -> None:
    """From now on a signal ends the process, with one word and no traceback."""
    _install(_exit)


def raise_from_now_on() -> None:
    """From now on a signal raises KeyboardInterrupt in the main thread."""
    _install(_raise)


def exit_code() -> int:
    """128 and the number of the first signal, as shells have it: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + (_received[0][0] if _received else signal.SIGINT)


def leave_if_interrupted() -> None:
    """After a signal, end the process without waiting for threads that are still computing what nobody wants any more."""
    if _received:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(exit_code())


def _install(handler: Callable[[int, FrameType | None], None]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # elsewhere signals cannot be caught
    ours = (_exit, _raise, signal.SIG_DFL, signal.default_int_handler)
    for number in SIGNALS:
        if signal.getsignal(number) in ours:
            signal.signal(number, handler)


def _exit(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


def _raise(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    again = bool(_received) and now - _received[-1][1] < ECHO
    _received.append((number, now))
    if not again or number == signal.SIGINT:
        if len(_received) == 1:
            threading.Thread(target=_insist, daemon=True).start()
        raise KeyboardInterrupt


def _insist() -> None:
    """Raise the interrupt again if nobody took notice of it.

    A KeyboardInterrupt is lost where Python ignores exceptions: when it happens to be raised while an object is being
    deleted, or in a callback. Whoever has noticed it is handling it, or something that went wrong meanwhile.
    """
    main = threading.main_thread().ident
    for _ in range(TRIES):
        time.sleep(NOTICE)
        found = sys._current_exceptions().get(main) if main is not None else None
        handled = found[1] if isinstance(found, tuple) else found  # Python before 3.12 gives three things
        while handled is not None:
            if isinstance(handled, KeyboardInterrupt):
                return
            handled = handled.__context__
        _thread.interrupt_main()
