"""Products of tall matrices [N, m], m small, on one thread.

A threaded BLAS is slower here: trials already run one to a core, and its threads get in each other's way. These
kernels release the GIL and give the same bits whatever runs beside them.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from evenroll.kernel import FUSED, compiled

REORDERED = FUSED | {"reassoc"}  # a sum may be taken in any order: the order of the machine code, always the same


def weighted_product(x: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Σ_n w_n x_n y_nᵀ: [m, k] from [N, m], [N], [N, k]."""
    m, k = x.shape[1], y.shape[1]
    total = np.zeros((m + m % 2, k + k % 2))  # the kernel works on pairs of columns
    _product()(_rows(x), _rows(weights), _rows(y), False, total)
    return total[:m, :k]


def weighted_gram(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ_n w_n x_n x_nᵀ: [m, m] from [N, m], [N]; half the work of the general product."""
    m, rows = x.shape[1], _rows(x)
    total = np.zeros((m + m % 2, m + m % 2))
    _product()(rows, _rows(weights), rows, True, total)
    upper = np.triu(total[:m, :m])
    return np.asarray(upper + np.triu(upper, 1).T)


def apply(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """x W: [N, k] from [N, m], [m, k]."""
    result = np.empty((len(x), matrix.shape[1]))
    _apply()(_rows(x), _rows(matrix.T), result)
    return result


def _rows(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, dtype=np.float64)


BLOCK = 256  # rows transposed at a time: two blocks of 65 columns stay in the second-level cache


def _product_kernel(x: Any, weights: Any, y: Any, upper: Any, total: Any) -> None:
    """Block by block: columns made contiguous, then dot products, four at a time."""
    m, k = x.shape[1], y.shape[1]
    left, right = np.zeros((m + m % 2, BLOCK)), np.zeros((k + k % 2, BLOCK))
    for first in range(0, len(x), BLOCK):
        rows = min(BLOCK, len(x) - first)
        for t in range(rows):
            for i in range(m):
                left[i, t] = weights[first + t] * x[first + t, i]
            for j in range(k):
                right[j, t] = y[first + t, j]
        for i in range(0, m, 2):
            a0, a1 = left[i], left[i + 1]
            for j in range(i if upper else 0, k, 2):
                b0, b1 = right[j], right[j + 1]
                c00, c01, c10, c11 = 0.0, 0.0, 0.0, 0.0
                for t in range(rows):
                    c00 += a0[t] * b0[t]
                    c01 += a0[t] * b1[t]
                    c10 += a1[t] * b0[t]
                    c11 += a1[t] * b1[t]
                total[i, j] += c00
                total[i, j + 1] += c01
                total[i + 1, j] += c10
                total[i + 1, j + 1] += c11


def _apply_kernel(x: Any, columns: Any, result: Any) -> None:
    m = x.shape[1]
    for t in range(len(x)):
        row = x[t]
        for c in range(len(columns)):
            column = columns[c]
            total = 0.0
            for j in range(m):
                total += row[j] * column[j]
            result[t, c] = total


@functools.cache
def _product() -> Any:
    from numba import boolean, float64, void

    matrix = float64[:, ::1]
    return compiled(_product_kernel, void(matrix, float64[::1], matrix, boolean, matrix), fastmath=REORDERED)


@functools.cache
def _apply() -> Any:
    from numba import float64, void

    matrix = float64[:, ::1]
    return compiled(_apply_kernel, void(matrix, matrix, matrix), fastmath=REORDERED)
