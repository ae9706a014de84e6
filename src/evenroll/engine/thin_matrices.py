"""Products of thin matrices [N, m], m small, and the systems that come of them, on one thread.

These kernels release the GIL and give the same bits whatever runs beside them. Matrices may be float32 (half the memory,
and fetching it takes the time); sums are float64. They are here because they are faster than NumPy and SciPy on a single
thread of BLAS; a threaded one is slower still, because trials already run one to a core and its threads get in each
other's way. How many times as long the library takes, m = 65, float32 | float64 (`python tools/thin_matrices.py`, an AMD
EPYC, OpenBLAS; with a second thread at it the figures are much the same):

    rows                     50          500        5,000       50,000      400,000
    weighted_gram         1.1 | 1.0   1.5 | 1.5   2.0 | 1.8   2.0 | 1.8   2.0 | 1.6
    weighted_product k=2  1.4 | 1.1   2.2 | 1.6   3.4 | 2.4   2.8 | 2.3   3.1 | 2.1
                     k=65 0.8 | 0.8   1.1 | 0.9   1.2 | 0.9   1.2 | 1.2   1.2 | 1.1
    apply            k=1  1.6 | 1.0   2.2 | 1.1   2.7 | 1.1   2.3 | 1.5   2.4 | 1.6
                     k=5  1.5 | 1.1   1.8 | 1.2   1.7 | 1.6   2.0 | 1.9   2.0 | 1.9
    column_sums           2.1 | 1.3   2.8 | 1.4   3.0 | 1.4   1.9 | 1.4   2.5 | 1.2
    column_counts         2.3 | 2.3   3.6 | 2.9   2.6 | 2.7   2.5 | 2.6   2.9 | 2.6

`solve_positive` is as fast as LAPACK at m = 65 with one right-hand side (1.2), which is what every step of Newton's method
solves, and slower at m = 195 with as many (0.7 – 0.9). It stays because a singular matrix does not stop it. `apply`
to eight columns or more, which only FQE's recursion needs, is slower than BLAS (0.5).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from evenroll.engine.pace import in_parts
from evenroll.engine.pieces import FUSED, compiled, number_type
from evenroll.errors import DataError

REORDERED = FUSED | {"reassoc"}  # the compiler may reorder a sum; the order in the machine code is then always the same
TINY = 1e-30  # the least value of a pivot, of which rounding may leave nothing
WIDE = 8  # from this many outputs on it pays to run along the outputs instead of along the inputs
BLOCK = 256  # rows transposed at a time: two blocks of 65 columns stay in the second-level cache
PAD = 8  # extra entries between the columns of a block: at a power of two all columns would claim the same cache lines


def weighted_product(x: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Σ_n w_n x_n y_nᵀ: [m, k] from [N, m], [N], [N, k]."""
    return _weighted_product(x, weights, y, False)


def weighted_gram(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ_n w_n x_n x_nᵀ: [m, m] from [N, m], [N]. It is half the work of the general product."""
    return _weighted_product(x, weights, x, True)


def _weighted_product(x: np.ndarray, weights: np.ndarray, y: np.ndarray, symmetric: bool) -> np.ndarray:
    _check(x.ndim == y.ndim == 2 and weights.shape == (len(x),) and len(y) == len(x), x, weights, y)
    m, k = x.shape[1], y.shape[1]
    total = np.zeros((m + m % 2, k + k % 2))  # the kernel works on pairs of columns
    call, left, weights, right = _product(_number(x), _number(y)), _rows(x), _reals(weights), _rows(y)
    room = np.zeros((m + m % 2, BLOCK + PAD)), np.zeros((k + k % 2, BLOCK + PAD))  # a pair's second column may stay 0
    for first, last in in_parts(len(x), m * k, BLOCK):
        call(left[first:last], weights[first:last], right[first:last], symmetric, *room, total)
    return total[:m, :k]


def column_counts(x: np.ndarray) -> np.ndarray:
    """How many entries of each column are not zero: [m] from [N, m]."""
    _check(x.ndim == 2, x)
    counts = np.zeros(x.shape[1])
    _counts(_number(x))(_rows(x), counts)
    return counts


def column_sums(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ_n w_n x_n: [m] from [N, m], [N]."""
    _check(x.ndim == 2 and weights.shape == (len(x),), x, weights)
    total = np.zeros(x.shape[1])
    _sums(_number(x))(_rows(x), _reals(weights), total)
    return total


def apply(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """x W: [N, k] from [N, m], [m, k]."""
    _check(x.ndim == matrix.ndim == 2 and len(matrix) == x.shape[1], x, matrix)
    result, rows = np.zeros((len(x), matrix.shape[1])), _rows(x)
    narrow = matrix.shape[1] < WIDE
    call, weights = (_apply if narrow else _apply_wide)(_number(x)), _reals(matrix.T if narrow else matrix)
    for first, last in in_parts(len(x), matrix.size):
        call(rows[first:last], weights, result[first:last])
    return result


def solve_positive(A: np.ndarray, B: np.ndarray, ridge: float | np.ndarray) -> np.ndarray:
    """A⁻¹B for a symmetric A [m, m] without negative eigenvalues, and B [m, k].

    ridge  what is added to the diagonal, relative to A's diagonal: one number for all entries, or [m]
    """
    _check(A.ndim == B.ndim == 2 and A.shape == (len(B), len(B)), A, B)
    scale = np.sqrt(np.diag(A))
    scale[scale == 0.0] = 1.0
    X = _reals(B / scale[:, None])
    _cholesky()(A / np.outer(scale, scale) + np.diag(np.full(len(A), ridge)), X)
    return np.asarray(X / scale[:, None])


def _check(fits: bool, *arrays: np.ndarray) -> None:
    """Raise unless the shapes fit together: the kernels do not look."""
    if not fits:
        raise DataError(f"arrays of shapes {', '.join(str(list(x.shape)) for x in arrays)} do not fit together")


def _reals(x: np.ndarray) -> np.ndarray:
    return np.require(x, np.float64, ["C", "W"])  # compiled code does not take what is read-only


def _rows(x: np.ndarray) -> np.ndarray:
    return np.require(x, np.float32, ["C", "W"]) if x.dtype == np.float32 else _reals(x)


def _number(x: np.ndarray) -> Any:
    """The Numba type of a matrix's entries."""
    return number_type(_rows(x[:0]).dtype)


def _product_kernel(x: Any, weights: Any, y: Any, symmetric: Any, left: Any, right: Any, total: Any) -> None:
    """Make the columns of each block of rows contiguous; then take their dot products, four at a time."""
    m, k = x.shape[1], y.shape[1]
    for first in range(0, len(x), BLOCK):
        rows = min(BLOCK, len(x) - first)
        for t in range(rows):
            for i in range(m):
                left[i, t] = weights[first + t] * x[first + t, i]
            for j in range(k):
                right[j, t] = y[first + t, j]
        for i in range(0, m, 2):
            a0, a1 = left[i], left[i + 1]
            for j in range(i if symmetric else 0, k, 2):
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
    if symmetric:
        for i in range(k):
            for j in range(i):
                total[i, j] = total[j, i]


def _sums_kernel(x: Any, weights: Any, total: Any) -> None:
    whole = len(x) - len(x) % 4
    for t in range(0, whole, 4):
        x0, x1, x2, x3 = x[t], x[t + 1], x[t + 2], x[t + 3]
        w0, w1, w2, w3 = weights[t], weights[t + 1], weights[t + 2], weights[t + 3]
        for i in range(len(total)):
            total[i] += (w0 * x0[i] + w1 * x1[i]) + (w2 * x2[i] + w3 * x3[i])
    for t in range(whole, len(x)):
        for i in range(len(total)):
            total[i] += weights[t] * x[t, i]


def _counts_kernel(x: Any, counts: Any) -> None:
    for t in range(len(x)):
        for i in range(len(counts)):
            counts[i] += 1.0 if x[t, i] != 0.0 else 0.0


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


def _apply_wide_kernel(x: Any, matrix: Any, result: Any) -> None:
    """Run along the outputs, two inputs at a time. Inputs that are zero (inactive ReLUs) are skipped."""
    m, k = matrix.shape
    for t in range(len(x)):
        out = result[t]
        pending = -1
        for j in range(m):
            if x[t, j] == 0.0:
                continue
            if pending < 0:
                pending = j
                continue
            a, b, row_a, row_b = x[t, pending], x[t, j], matrix[pending], matrix[j]
            for c in range(k):
                out[c] += a * row_a[c] + b * row_b[c]
            pending = -1
        if pending >= 0:
            for c in range(k):
                out[c] += x[t, pending] * matrix[pending, c]


def _cholesky_kernel(A: Any, B: Any) -> None:
    """Replace A by its factor L, A = LLᵀ, and B by L⁻ᵀL⁻¹B. The inner loops run along the rows of B."""
    m = len(A)
    for i in range(m):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= A[i, k] * A[j, k]
            A[i, j] = math.sqrt(max(total, TINY)) if i == j else total / A[j, j]
    columns = B.shape[1]
    for i in range(m):
        for k in range(i):
            for c in range(columns):
                B[i, c] -= A[i, k] * B[k, c]
        for c in range(columns):
            B[i, c] /= A[i, i]
    for i in range(m - 1, -1, -1):
        for k in range(i + 1, m):
            for c in range(columns):
                B[i, c] -= A[k, i] * B[k, c]
        for c in range(columns):
            B[i, c] /= A[i, i]


@functools.cache
def _product(x: Any, y: Any) -> Any:
    from numba import boolean, float64, void

    table = float64[:, ::1]
    signature = void(x[:, ::1], float64[::1], y[:, ::1], boolean, table, table, table)
    return compiled(_product_kernel, signature, fastmath=REORDERED)


@functools.cache
def _cholesky() -> Any:
    from numba import float64, void

    matrix = float64[:, ::1]
    return compiled(_cholesky_kernel, void(matrix, matrix), fastmath=REORDERED)


@functools.cache
def _sums(x: Any) -> Any:
    from numba import float64, void

    return compiled(_sums_kernel, void(x[:, ::1], float64[::1], float64[::1]), fastmath=FUSED)


@functools.cache
def _counts(x: Any) -> Any:
    from numba import float64, void

    return compiled(_counts_kernel, void(x[:, ::1], float64[::1]), fastmath=FUSED)


@functools.cache
def _apply_wide(x: Any) -> Any:
    from numba import float64, void

    return compiled(_apply_wide_kernel, void(x[:, ::1], float64[:, ::1], float64[:, ::1]), fastmath=FUSED)


@functools.cache
def _apply(x: Any) -> Any:
    from numba import float64, void

    return compiled(_apply_kernel, void(x[:, ::1], float64[:, ::1], float64[:, ::1]), fastmath=REORDERED)
