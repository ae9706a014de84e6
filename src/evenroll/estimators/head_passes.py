"""One pass over the rows of features: log p of every row, what the curvature is made of, and the gradient, all at once.

A fit of π̂ (behavior_fit.py) passes over its rows at every step, and fetching them is what takes the time. A block of rows
is small enough to stay in the cache while it is used twice: first for the outputs of the head, then for the gradient.
Features may be float32; sums are float64. The kernels release the GIL and give the same bits whatever runs beside them.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numba import float64, int64, void

from evenroll.engine.addresses import Addresses, pointers
from evenroll.engine.helpers import helper
from evenroll.engine.pace import in_parts
from evenroll.engine.pieces import FUSED, compiled, number_type, shift
from evenroll.engine.scalars import exp_negative, larger, smaller, whole
from evenroll.errors import DataError
from evenroll.policies.heads import LOG_SQRT_2PI

BLOCK = 128  # rows at a time: 65 columns of float64 are 66 KB, which the second-level cache has room for
DOTS = FUSED | {"reassoc"}  # the compiler may reorder a sum; the order in the machine code is then always the same


def softmax_pass(psi: np.ndarray, actions: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log softmax(0, Wψ)[a] of every row [N], all probabilities [actions, N], and the gradient [actions − 1, m].

    psi [N, m], actions [N] as float64, x = W [actions − 1, m]
    """
    (n, m), k, psi, actions = psi.shape, len(x) + 1, _rows(psi), _reals(actions)
    if not ((actions >= 0.0) & (actions < k)).all():  # nan, too
        raise DataError(f"an action is none of the numbers 0 to {k - 1}")
    log_p, p, gradient, room = np.empty(n), np.empty((k, n)), np.zeros((k - 1, m)), np.empty((k + 2, BLOCK))
    kernel, parameters = _softmax(number_type(psi.dtype)), _reals(x).reshape(-1)
    for first, last in in_parts(n, m * k, BLOCK):
        arrays = psi[first:last].reshape(-1), actions[first:last], parameters, log_p[first:last], p.reshape(-1)[first:]
        kernel((*arrays, room.reshape(-1), gradient.reshape(-1)), last - first, m, k, n)
    return log_p, p, gradient


def gaussian_pass(
    psi: np.ndarray, actions: np.ndarray, x: np.ndarray, tied: bool, tanh: bool, softplus: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """log N(a; mean, scale²) of every row [N], mean'/scale and scale'/scale [N], and the gradient by x.

    mean = link(ψw) and scale = link(ψu) if `tied`, else link(u) with a single number u; x = (w, u), psi [N, m], actions [N].
    Primes are derivatives of the links. tanh: the mean's link, else it has none. softplus: the scale's link, else exp. This
    softplus has no floor.
    """
    (n, m), psi, actions, x = psi.shape, _rows(psi), _reals(actions), _reals(x)
    log_p, by_mean, by_scale, gradient, room = np.empty(n), np.empty(n), np.empty(n), np.zeros(len(x)), np.empty(4 * BLOCK)
    kernel = _gaussian(number_type(psi.dtype))
    for first, last in in_parts(n, 2 * m, BLOCK):
        part = slice(first, last)
        arrays = psi[part].reshape(-1), actions[part], x, log_p[part], by_mean[part], by_scale[part], room, gradient
        kernel(arrays, last - first, m, int(tied), int(tanh), int(softplus))
    return log_p, by_mean, by_scale, gradient


def _rows(x: np.ndarray) -> np.ndarray:
    return np.require(x, np.float32 if x.dtype == np.float32 else np.float64, ["C", "W"])


def _reals(x: np.ndarray) -> np.ndarray:
    return np.require(x, np.float64, ["C", "W"])  # compiled code does not take what is read-only


@helper(fastmath=FUSED)
def log_1_plus(e: float) -> float:
    """log(1 + e) for 0 ≤ e ≤ 1, without branches: 2 (s + s³/3 + s⁵/5 + …) with s = e/(2 + e) ≤ 1/3; relative error 2e-16."""
    s = e / (2.0 + e)
    y = s * s
    total = 1.0 / 33.0
    total = total * y + 1.0 / 31.0
    total = total * y + 1.0 / 29.0
    total = total * y + 1.0 / 27.0
    total = total * y + 1.0 / 25.0
    total = total * y + 1.0 / 23.0
    total = total * y + 1.0 / 21.0
    total = total * y + 1.0 / 19.0
    total = total * y + 1.0 / 17.0
    total = total * y + 1.0 / 15.0
    total = total * y + 1.0 / 13.0
    total = total * y + 1.0 / 11.0
    total = total * y + 1.0 / 9.0
    total = total * y + 1.0 / 7.0
    total = total * y + 1.0 / 5.0
    total = total * y + 1.0 / 3.0
    return 2.0 * s * (total * y + 1.0)


@helper(fastmath=DOTS)
def dots(rows: Any, n: int, m: int, column: Any, result: Any) -> None:
    """result_t = row_t · column, for n rows."""
    for t in range(n):
        row, total = shift(rows, t * m), 0.0
        for j in range(m):
            total += row[j] * column[j]
        result[t] = total


@helper(fastmath=DOTS)
def two_dots(rows: Any, n: int, m: int, first: Any, second: Any, of_first: Any, of_second: Any) -> None:
    """The same for two columns."""
    for t in range(n):
        row, a, b = shift(rows, t * m), 0.0, 0.0
        for j in range(m):
            a += row[j] * first[j]
            b += row[j] * second[j]
        of_first[t], of_second[t] = a, b


@helper(fastmath=FUSED)
def add_rows(rows: Any, n: int, m: int, weights: Any, total: Any) -> None:
    """total += Σ_t weight_t row_t, four rows at a time."""
    whole_fours = n - n % 4
    for t in range(0, whole_fours, 4):
        x0, x1, x2, x3 = shift(rows, t * m), shift(rows, (t + 1) * m), shift(rows, (t + 2) * m), shift(rows, (t + 3) * m)
        w0, w1, w2, w3 = weights[t], weights[t + 1], weights[t + 2], weights[t + 3]
        for i in range(m):
            total[i] += (w0 * x0[i] + w1 * x1[i]) + (w2 * x2[i] + w3 * x3[i])
    for t in range(whole_fours, n):
        row, weight = shift(rows, t * m), weights[t]
        for i in range(m):
            total[i] += weight * row[i]


@helper(fastmath=FUSED)
def add_rows_twice(rows: Any, n: int, m: int, first: Any, second: Any, of_first: Any, of_second: Any) -> None:
    """The same for two sets of weights."""
    whole_fours = n - n % 4
    for t in range(0, whole_fours, 4):
        x0, x1, x2, x3 = shift(rows, t * m), shift(rows, (t + 1) * m), shift(rows, (t + 2) * m), shift(rows, (t + 3) * m)
        v0, v1, v2, v3 = first[t], first[t + 1], first[t + 2], first[t + 3]
        w0, w1, w2, w3 = second[t], second[t + 1], second[t + 2], second[t + 3]
        for i in range(m):
            a0, a1, a2, a3 = x0[i], x1[i], x2[i], x3[i]
            of_first[i] += (v0 * a0 + v1 * a1) + (v2 * a2 + v3 * a3)
            of_second[i] += (w0 * a0 + w1 * a1) + (w2 * a2 + w3 * a3)
    for t in range(whole_fours, n):
        row = shift(rows, t * m)
        for i in range(m):
            of_first[i] += first[t] * row[i]
            of_second[i] += second[t] * row[i]


def _softmax_kernel(arrays: Any, n: Any, m: Any, k: Any, stride: Any) -> None:
    """Probability i of row t is p[i·stride + t]. `room` holds the outputs of a block, then the scores 1{a} − p.

    The loops over a block are several, because those without logarithms work on several rows at the same time.
    """
    psi, actions, x, log_p, p, room, gradient = pointers(arrays)
    top, total = shift(room, k * BLOCK), shift(room, (k + 1) * BLOCK)
    for first in range(0, n, BLOCK):
        rows, here = smaller(BLOCK, n - first), shift(psi, first * m)
        for t in range(rows):
            room[t] = 0.0
        for i in range(1, k):
            dots(here, rows, m, shift(x, (i - 1) * m), shift(room, i * BLOCK))
        for t in range(rows):
            top[t], total[t] = 0.0, 0.0
        for i in range(1, k):
            for t in range(rows):
                top[t] = larger(top[t], room[i * BLOCK + t])
        for t in range(rows):
            log_p[first + t] = room[whole(actions[first + t]) * BLOCK + t] - top[t]
        for i in range(k):
            for t in range(rows):
                room[i * BLOCK + t] = exp_negative(room[i * BLOCK + t] - top[t])
                total[t] += room[i * BLOCK + t]
        for t in range(rows):
            log_p[first + t] -= math.log(total[t])
        for i in range(k):
            for t in range(rows):
                probability = room[i * BLOCK + t] / total[t]
                p[i * stride + first + t] = probability
                room[i * BLOCK + t] = -probability
        for t in range(rows):
            room[whole(actions[first + t]) * BLOCK + t] += 1.0
        for i in range(1, k):
            add_rows(here, rows, m, shift(room, i * BLOCK), shift(gradient, (i - 1) * m))


def _gaussian_kernel(arrays: Any, n: Any, m: Any, tied: Any, tanh: Any, softplus: Any) -> None:
    """`room` holds the two outputs of a block, which become mean and log scale, then the derivatives of log p by them.

    The loops over a block are several, because those without logarithms work on several rows at the same time.
    """
    psi, actions, x, log_p, by_mean, by_scale, room, gradient = pointers(arrays)
    of_mean, of_scale, slope, scale = room, shift(room, BLOCK), shift(room, 2 * BLOCK), shift(room, 3 * BLOCK)
    for first in range(0, n, BLOCK):
        rows, here = smaller(BLOCK, n - first), shift(psi, first * m)
        if tied:
            two_dots(here, rows, m, x, shift(x, m), of_mean, of_scale)
        else:
            dots(here, rows, m, x, of_mean)
            for t in range(rows):
                of_scale[t] = x[m]
        if tanh:
            for t in range(rows):
                e = exp_negative(-2.0 * abs(of_mean[t]))
                size = (1.0 - e) / (1.0 + e)
                of_mean[t], slope[t] = size if of_mean[t] > 0.0 else -size, 1.0 - size * size
        else:
            for t in range(rows):
                slope[t] = 1.0
        if softplus:
            for t in range(rows):
                e = exp_negative(-abs(of_scale[t]))
                scale[t] = larger(of_scale[t], 0.0) + log_1_plus(e)
                by_scale[first + t] = (1.0 if of_scale[t] > 0.0 else e) / ((1.0 + e) * scale[t])
            for t in range(rows):
                of_scale[t] = math.log(scale[t])
        else:
            for t in range(rows):
                scale[t], by_scale[first + t] = math.exp(of_scale[t]), 1.0
        for t in range(rows):
            z = (actions[first + t] - of_mean[t]) / scale[t]
            log_p[first + t] = -0.5 * z * z - of_scale[t] - LOG_SQRT_2PI
            by_mean[first + t] = slope[t] / scale[t]
            of_mean[t], of_scale[t] = slope[t] / scale[t] * z, by_scale[first + t] * (z * z - 1.0)
        if tied:
            add_rows_twice(here, rows, m, of_mean, of_scale, gradient, shift(gradient, m))
        else:
            add_rows(here, rows, m, of_mean, gradient)
            for t in range(rows):
                gradient[m] += of_scale[t]


@functools.cache
def _softmax(number: Any) -> Any:
    return compiled(_softmax_kernel, void(Addresses((number, *[float64] * 6)), *[int64] * 4), fastmath=FUSED)


@functools.cache
def _gaussian(number: Any) -> Any:
    return compiled(_gaussian_kernel, void(Addresses((number, *[float64] * 7)), *[int64] * 5), fastmath=FUSED)
