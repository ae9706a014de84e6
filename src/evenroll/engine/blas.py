"""Linear algebra without threads of its own."""

from __future__ import annotations

from threadpoolctl import threadpool_limits


def single_threaded_blas() -> threadpool_limits:
    """Within this context linear algebra stays on the thread that asks for it.

    BLAS threads are no use for matrices as narrow as ours, they fight with our own threads, and they change the last bits.
    """
    return threadpool_limits(1, user_api="blas")
