"""Guard pages: a way to find compiled code that reads or writes outside its arrays. For tests; off unless asked for.

Compiled pieces work on addresses, and Numba checks no bounds of those. With EVENROLL_GUARD=after in the environment, every
array that Python hands to compiled code is first copied to memory that ends where a page begins that may be neither read nor
written; with EVENROLL_GUARD=before the forbidden page lies before the array. What the code changed is copied back. The
smallest step out of an array on that side then ends the process with a signal, and `python -X faulthandler` says where it
was called. Runs are many times slower, and their results are the same.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from typing import Any

import numpy as np

SIDE = os.environ.get("EVENROLL_GUARD", "")  # "after", "before", or nothing
PAGE = mmap.PAGESIZE
_PROT_NONE = 0


class Guarded:
    """A compiled function whose arrays lie beside forbidden pages while it runs."""

    def __init__(self, function: Any) -> None:
        self._function, self._mine = function, threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __call__(self, *arguments: Any) -> Any:
        moved: dict[tuple[int, tuple[int, ...], str], tuple[np.ndarray, np.ndarray]] = {}
        result = self._function(*(self._moved(x, moved) for x in arguments))
        for here, there in moved.values():
            if here.flags.writeable:
                here[...] = there
        return result

    def _moved(self, x: Any, moved: dict[Any, tuple[np.ndarray, np.ndarray]]) -> Any:
        """An argument with its arrays in guarded memory. An array that comes twice is moved once."""
        if isinstance(x, tuple):
            return tuple(self._moved(part, moved) for part in x)
        if not isinstance(x, np.ndarray) or x.size == 0:
            return x
        key = (x.ctypes.data, x.shape, x.dtype.str)
        if key not in moved:
            moved[key] = (x, self._copy(x, len(moved)))
        return moved[key][1]

    def _copy(self, x: np.ndarray, number: int) -> np.ndarray:
        kept: dict[tuple[int, int], memoryview] = self._mine.__dict__.setdefault("kept", {})
        if (number, x.nbytes) not in kept:
            kept[number, x.nbytes] = _between(x.nbytes)
        there = np.frombuffer(kept[number, x.nbytes], x.dtype).reshape(x.shape)
        there[...] = x
        return there


def _between(size: int) -> memoryview:
    """Memory of this many bytes that ends, or begins, at a page that may not be touched."""
    pages = -(-max(size, 1) // PAGE)
    whole = mmap.mmap(-1, (pages + 1) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    forbidden = start + pages * PAGE if SIDE == "after" else start
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(forbidden), PAGE, _PROT_NONE) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    first = pages * PAGE - size if SIDE == "after" else PAGE
    return memoryview(whole)[first : first + size]


def guarded(function: Any) -> Any:
    """The function itself, or with guard pages where the environment asks for them."""
    if not SIDE:
        return function
    if SIDE not in ("after", "before") or not sys.platform.startswith("linux"):
        raise SystemExit("EVENROLL_GUARD must be `after` or `before`, on Linux")
    return Guarded(function)
