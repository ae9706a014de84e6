"""Loops over registers against NumPy, for every number of columns: blocks, single registers, and what is left over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from evenroll.engine.pieces import pointer
from evenroll.engine.simd import (
    add,
    aligned,
    dot,
    fma,
    list_positive,
    load,
    multiply,
    over_columns,
    relu,
    splat,
    store,
    unit_step,
    width_of,
)

SIZES = (*range(20), 31, 32, 33, 64, 100)


@over_columns(4)
def _words(size: int) -> Any:
    def columns(o: int, y: Any, a: Any, b: Any, out: Any) -> None:
        x = fma(splat(y, size), load(a, o, size), load(b, o, size))
        store(out, o, add(multiply(relu(x), x), unit_step(x)))

    return columns


@over_columns(4, padded=True, inline=False, optimised=False)
def _full(size: int) -> Any:
    def columns(o: int, y: Any, a: Any, b: Any) -> None:
        store(b, o, fma(splat(y, size), load(a, o, size), load(b, o, size)))

    return columns


@over_columns(2)
def _sum(size: int) -> Any:
    def columns(o: int, a: Any, b: Any, total: Any) -> None:
        total[0] += dot(load(a, o, size), load(b, o, size))

    return columns


@njit
def _run_words(n: int, y: Any, a: Any, b: Any, out: Any) -> None:
    _words(n, width_of(a), y, pointer(a), pointer(b), pointer(out))


@njit
def _run_full(n: int, y: Any, a: Any, b: Any) -> None:
    _full(n, width_of(a), y, pointer(a), pointer(b))
    _full(n, width_of(a), y, pointer(a), pointer(b))


@njit
def _run_sum(n: int, a: Any, b: Any, total: Any) -> None:
    _sum(n, width_of(a), pointer(a), pointer(b), pointer(total))


@njit
def _run_list(n: int, a: Any, b: Any, items: Any) -> int:
    count = 0
    for o in range(0, n, 4):
        count = list_positive(load(pointer(a), o, 1), load(pointer(b), o, 1), o, pointer(items), count)
    return count


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_word_in_every_column_and_in_none_beyond(dtype: Any) -> None:
    rng, tolerance = np.random.default_rng(0), 1e-5 if dtype is np.float32 else 1e-13
    for n in SIZES:
        a, b = (rng.normal(size=n + 8).astype(dtype) for _ in range(2))
        out, total, y = np.full(n + 8, 9.0, dtype), np.zeros(1), dtype(0.7)
        _run_words(n, y, a, b, out)
        x = y * a[:n] + b[:n]
        np.testing.assert_allclose(out[:n], np.maximum(x, 0) * x + (x > 0), rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(out[n:], 9.0)
        _run_sum(n, a, b, total)
        assert total[0] == pytest.approx(np.sum(a[:n].astype(np.float64) * b[:n]), abs=100 * tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_that_fill_registers_need_no_single_numbers(dtype: Any) -> None:
    """In a function that is called twice, and is no part of its caller."""
    rng, tolerance = np.random.default_rng(2), 1e-5 if dtype is np.float32 else 1e-13
    for n in range(0, 120, 8):
        a, b = (rng.normal(size=n + 8).astype(dtype) for _ in range(2))
        expected = np.append(b[:n] + 2 * dtype(0.7) * a[:n], b[n:])
        _run_full(n, dtype(0.7), a, b)
        np.testing.assert_allclose(b, expected, rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(b[n:], expected[n:])


def test_positive_numbers_are_listed_in_order() -> None:
    rng = np.random.default_rng(1)
    for n in (4, 8, 40):
        for share in (0.0, 0.3, 0.9, 1.0):
            a, b = ((rng.random(n) < share).astype(np.float64) - 0.5 for _ in range(2))
            items = np.full(n + 8, -1)
            count = _run_list(n, a, b, items)
            np.testing.assert_array_equal(items[:count], np.flatnonzero((a > 0) | (b > 0)))


@pytest.mark.parametrize("at", [0, 3, 17])
def test_aligned_copies_begin_a_cache_line_where_asked(at: int) -> None:
    values = np.arange(40, dtype=np.float32)
    copy = aligned(values, at)
    np.testing.assert_array_equal(copy, values)
    assert copy[at:].ctypes.data % 64 == 0
