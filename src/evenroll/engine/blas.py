"""Linear algebra that starts no threads."""

from __future__ import annotations

import functools
import sys
from contextlib import AbstractContextManager

from threadpoolctl import ThreadpoolController


def single_threaded_blas() -> AbstractContextManager[object]:
    """A context in which linear algebra stays on the thread that asks for it.

    For matrices as narrow as ours the threads of BLAS are of no use. They fight with our own threads, and they change the
    last bits of a result.
    """
    return _libraries(len(sys.modules)).limit(limits=1, user_api="blas")


@functools.lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The libraries of linear algebra that are loaded. Looking for them takes milliseconds, so they are remembered until
    another number of modules is imported: a new one may have brought a library along."""
    return ThreadpoolController()
