"""Who wants to know that something is about to be compiled, which takes seconds, or that it has been.

This module imports nothing: a command can ask before the compiler is loaded.
"""

from __future__ import annotations

from collections.abc import Callable

_waiting: list[Callable[[], None]] = []
_afterwards: list[Callable[[], None]] = []


def when_compiling(tell: Callable[[], None], afterwards: Callable[[], None]) -> None:
    """Call `tell` when a function is not in the disk cache, the first time only.

    afterwards  what is called each time that a function was compiled or loaded, before garbage is looked for again
    """
    _waiting[:] = [tell]
    _afterwards[:] = [afterwards]


def begins() -> None:
    """A function is about to be compiled."""
    while _waiting:
        _waiting.pop()()


def ends() -> None:
    """A function was compiled, or loaded."""
    for call in _afterwards:
        call()
