"""Who wants to know that something is about to be compiled, which takes seconds.

This module imports nothing: a command can ask before the compiler is loaded.
"""

from __future__ import annotations

from collections.abc import Callable

_waiting: list[Callable[[], None]] = []


def when_compiling(tell: Callable[[], None]) -> None:
    """Call `tell` when a function is not in the disk cache, the first time only."""
    _waiting[:] = [tell]


def begins() -> None:
    """A function is about to be compiled."""
    while _waiting:
        _waiting.pop()()
