"""Linear algebra that starts no threads."""

from __future__ import annotations

from threadpoolctl import threadpool_limits


def single_threaded_blas() -> threadpool_limits:
    """A context in which linear algebra stays on the thread that asks for it.

    For matrices as narrow as ours the threads of BLAS are of no use. They fight with our own threads, and they change the
    last bits of a result.
    """
    return threadpool_limits(1, user_api="blas")
