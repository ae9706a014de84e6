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
from numba import float64, int64, void

from evenroll.engine.addresses import Addresses, pointers
from evenroll.engine.pace import in_parts
from evenroll.engine.pieces import FUSED, compiled, number_type, shift
from evenroll.engine.scalars import larger, smaller
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
        parts = left[first:last], weights[first:last], right[first:last]
        call(_flat(*parts, *room, total), last - first, m, k, int(symmetric))
    return total[:m, :k]


def column_counts(x: np.ndarray) -> np.ndarray:
    """How many entries of each column are not zero: [m] from [N, m]."""
    _check(x.ndim == 2, x)
    counts = np.zeros(x.shape[1])
    _counts(_number(x))(_flat(_rows(x), counts), *x.shape)
    return counts


def apply(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """x W: [N, k] from [N, m], [m, k]."""
    _check(x.ndim == matrix.ndim == 2 and len(matrix) == x.shape[1], x, matrix)
    result, rows = np.zeros((len(x), matrix.shape[1])), _rows(x)
    narrow = matrix.shape[1] < WIDE
    call, weights = (_apply if narrow else _apply_wide)(_number(x)), _reals(matrix.T if narrow else matrix)
    for first, last in in_parts(len(x), matrix.size):
        call(_flat(rows[first:last], weights, result[first:last]), last - first, *matrix.shape)
    return result


def solve_positive(A: np.ndarray, B: np.ndarray, ridge: float | np.ndarray) -> np.ndarray:
    """A⁻¹B for a symmetric A [m, m] without negative eigenvalues, and B [m, k].

    ridge  what is added to the diagonal, relative to A's diagonal: one number for all entries, or [m]
    """
    _check(A.ndim == B.ndim == 2 and A.shape == (len(B), len(B)), A, B)
    scale = np.sqrt(np.diag(A))
    scale[scale == 0.0] = 1.0
    X = _reals(B / scale[:, None])
    _cholesky()(_flat(A / np.outer(scale, scale) + np.diag(np.full(len(A), ridge)), X), *X.shape)
    return np.asarray(X / scale[:, None])


def _check(fits: bool, *arrays: np.ndarray) -> None:
    """Raise unless the shapes fit together: the kernels do not look."""
    if not fits:
        raise DataError(f"arrays of shapes {', '.join(str(list(x.shape)) for x in arrays)} do not fit together")


def _reals(x: np.ndarray) -> np.ndarray:
    return np.require(x, np.float64, ["C", "W"])  # compiled code does not take what is read-only


def _rows(x: np.ndarray) -> np.ndarray:
    return np.require(x, np.float32, ["C", "W"]) if x.dtype == np.float32 else _reals(x)


def _flat(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The arrays as kernels take them: the same memory, without a shape."""
    return tuple(x.reshape(-1) for x in arrays)


def _number(x: np.ndarray) -> Any:
    """The Numba type of a matrix's entries."""
    return number_type(_rows(x[:0]).dtype)


def _product_kernel(arrays: Any, n: Any, m: Any, k: Any, symmetric: Any) -> None:
    """Make the columns of each block of rows contiguous; then take their dot products, four at a time."""
    x, weights, y, left, right, total = pointers(arrays)
    width, room = k + k % 2, BLOCK + PAD
    for first in range(0, n, BLOCK):
        rows = smaller(BLOCK, n - first)
        for t in range(rows):
            weight, of_x, of_y = weights[first + t], shift(x, (first + t) * m), shift(y, (first + t) * k)
            for i in range(m):
                left[i * room + t] = weight * of_x[i]
            for j in range(k):
                right[j * room + t] = of_y[j]
        for i in range(0, m, 2):
            a0, a1 = shift(left, i * room), shift(left, (i + 1) * room)
            for j in range(i if symmetric else 0, k, 2):
                b0, b1 = shift(right, j * room), shift(right, (j + 1) * room)
                c00, c01, c10, c11 = 0.0, 0.0, 0.0, 0.0
                for t in range(rows):
                    c00 += a0[t] * b0[t]
                    c01 += a0[t] * b1[t]
                    c10 += a1[t] * b0[t]
                    c11 += a1[t] * b1[t]
                total[i * width + j] += c00
                total[i * width + j + 1] += c01
                total[(i + 1) * width + j] += c10
                total[(i + 1) * width + j + 1] += c11
    if symmetric:
        for i in range(k):
            for j in range(i):
                total[i * width + j] = total[j * width + i]


def _counts_kernel(arrays: Any, n: Any, m: Any) -> None:
    x, counts = pointers(arrays)
    for t in range(n):
        row = shift(x, t * m)
        for i in range(m):
            counts[i] += 1.0 if row[i] != 0.0 else 0.0


def _apply_kernel(arrays: Any, n: Any, m: Any, k: Any) -> None:
    x, columns, result = pointers(arrays)
    for t in range(n):
        row = shift(x, t * m)
        for c in range(k):
            column = shift(columns, c * m)
            total = 0.0
            for j in range(m):
                total += row[j] * column[j]
            result[t * k + c] = total


def _apply_wide_kernel(arrays: Any, n: Any, m: Any, k: Any) -> None:
    """Run along the outputs, two inputs at a time. Inputs that are zero (inactive ReLUs) are skipped."""
    x, matrix, result = pointers(arrays)
    for t in range(n):
        row, out = shift(x, t * m), shift(result, t * k)
        pending = -1
        for j in range(m):
            if row[j] == 0.0:
                continue
            if pending < 0:
                pending = j
                continue
            a, b, row_a, row_b = row[pending], row[j], shift(matrix, pending * k), shift(matrix, j * k)
            for c in range(k):
                out[c] += a * row_a[c] + b * row_b[c]
            pending = -1
        if pending >= 0:
            a, row_a = row[pending], shift(matrix, pending * k)
            for c in range(k):
                out[c] += a * row_a[c]


def _cholesky_kernel(arrays: Any, m: Any, k: Any) -> None:
    """Replace A by its factor L, A = LLᵀ, and B by L⁻ᵀL⁻¹B. The inner loops run along the rows of B."""
    A, B = pointers(arrays)
    for i in range(m):
        row = shift(A, i * m)
        for j in range(i + 1):
            other, total = shift(A, j * m), row[j]
            for p in range(j):
                total -= row[p] * other[p]
            row[j] = math.sqrt(larger(total, TINY)) if i == j else total / other[j]
    for i in range(m):
        row = shift(B, i * k)
        for j in range(i):
            factor, other = A[i * m + j], shift(B, j * k)
            for c in range(k):
                row[c] -= factor * other[c]
        for c in range(k):
            row[c] /= A[i * m + i]
    for i in range(m - 1, -1, -1):
        row = shift(B, i * k)
        for j in range(i + 1, m):
            factor, other = A[j * m + i], shift(B, j * k)
            for c in range(k):
                row[c] -= factor * other[c]
        for c in range(k):
            row[c] /= A[i * m + i]


@functools.cache
def _product(x: Any, y: Any) -> Any:
    return _kernel(_product_kernel, (x, float64, y, float64, float64, float64), 4, REORDERED)


@functools.cache
def _cholesky() -> Any:
    return _kernel(_cholesky_kernel, (float64, float64), 2, REORDERED)


@functools.cache
def _counts(x: Any) -> Any:
    return _kernel(_counts_kernel, (x, float64), 2, FUSED)


@functools.cache
def _apply_wide(x: Any) -> Any:
    return _kernel(_apply_wide_kernel, (x, float64, float64), 3, FUSED)


@functools.cache
def _apply(x: Any) -> Any:
    return _kernel(_apply_kernel, (x, float64, float64), 3, REORDERED)


def _kernel(function: Any, numbers: tuple[Any, ...], sizes: int, fastmath: Any) -> Any:
    """A compiled kernel of arrays with these types of numbers, and of this many sizes."""
    return compiled(function, void(Addresses(numbers), *[int64] * sizes), fastmath=fastmath)
