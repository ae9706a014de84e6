"""The kernels of `engine/thin_matrices.py` beside NumPy and SciPy on one thread of BLAS: where they are worth their lines.

    python tools/thin_matrices.py                     # a table, and its rows as JSON with --json FILE
    python tools/thin_matrices.py --repeats 30

Kernel and library take turns in one process, alone and with a second thread that does the same (trials run one to a core).
Times are medians of the processor time of the calling thread, so that others on the machine disturb them little.
Half of the features are zeros, as behind ReLUs. The library gets what serves it best: blocks of rows that stay in the cache,
converted to float64 because sums are float64.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy import linalg

from evenroll.engine.blas import single_threaded_blas
from evenroll.engine.thin_matrices import apply, column_counts, solve_positive, weighted_gram, weighted_product

WIDTH = 65  # features of the paper's networks, with the constant
ROWS = (50, 500, 5_000, 50_000, 400_000)
BLOCK = 1024  # rows that the library takes at a time

Functions = tuple[Callable[[], Any], Callable[[], Any]]  # the kernel's way, and the library's


def blocks(n: int) -> Iterator[slice]:
    return (slice(a, min(a + BLOCK, n)) for a in range(0, n, BLOCK))


def library_product(x: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    total = np.zeros((x.shape[1], y.shape[1]))
    for rows in blocks(len(x)):
        total += (x[rows] * weights[rows, None]).T @ np.asarray(y[rows], dtype=np.float64)
    return total


def library_apply(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    result = np.empty((len(x), matrix.shape[1]))
    for rows in blocks(len(x)):
        np.matmul(np.asarray(x[rows], dtype=np.float64), matrix, out=result[rows])
    return result


def library_solve(A: np.ndarray, B: np.ndarray, ridge: float) -> np.ndarray:
    scale = np.sqrt(np.diag(A))
    scale[scale == 0.0] = 1.0
    scaled = A / np.outer(scale, scale) + np.diag(np.full(len(A), ridge))
    factor = linalg.cho_factor(scaled, lower=True, check_finite=False)
    return np.asarray(linalg.cho_solve(factor, B / scale[:, None], check_finite=False) / scale[:, None])


def cases(most: int) -> Iterator[tuple[str, str, int, int, Functions]]:
    """(what, precision, rows, columns of the other matrix, functions)."""
    rng = np.random.default_rng(0)

    def pair(kernel: Callable[..., Any], library: Callable[..., Any], *arguments: Any) -> Functions:
        return functools.partial(kernel, *arguments), functools.partial(library, *arguments)

    for n, dtype in itertools.product((n for n in ROWS if n <= most), ("float32", "float64")):
        x, weights = np.maximum(rng.normal(size=(n, WIDTH)), 0.0).astype(dtype), rng.normal(size=n)
        yield "weighted_gram", dtype, n, WIDTH, pair(lambda x, w, _: weighted_gram(x, w), library_product, x, weights, x)
        for k in (2, WIDTH):
            y = np.ascontiguousarray(x[:, -k:])
            yield "weighted_product", dtype, n, k, pair(weighted_product, library_product, x, weights, y)
        for k in (1, 2, 5):
            yield "apply", dtype, n, k, pair(apply, library_apply, x, rng.normal(size=(WIDTH, k)))
        yield "column_counts", dtype, n, 1, pair(column_counts, functools.partial(np.count_nonzero, axis=0), x)
    for m, k in ((WIDTH, 1), (2 * WIDTH, 1), (2 * WIDTH, 2 * WIDTH), (3 * WIDTH, 3 * WIDTH)):
        z = rng.normal(size=(2 * m, m))
        yield "solve_positive", "float64", m, k, pair(solve_positive, library_solve, z.T @ z, rng.normal(size=(m, k)), 1e-9)


def alternate(functions: Functions, repeats: int, inner: int) -> tuple[float, float]:
    """Median seconds of each function, called `inner` times in a row."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for function, spent in zip(functions, times, strict=True):
            start = time.thread_time()
            for _ in range(inner):
                function()
            spent.append((time.thread_time() - start) / inner)
    return statistics.median(times[0]), statistics.median(times[1])


def twice(functions: Functions, repeats: int, inner: int) -> tuple[float, float]:
    """The same while a second thread does it too."""
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: alternate(functions, repeats, inner), range(2)))
    return statistics.mean(a for a, _ in found), statistics.mean(b for _, b in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--rows", type=int, default=ROWS[-1], help="the most rows")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    print(f"{'':18} {'':8} {'rows':>7} {'k':>3} {'kernel':>10} {'library':>10}  library/kernel: alone, in two threads")
    with single_threaded_blas():
        for what, dtype, n, k, functions in cases(arguments.rows):
            np.testing.assert_allclose(functions[0](), functions[1](), rtol=1e-6, atol=1e-6 * n)
            inner = 1 if what == "solve_positive" else max(1, 2_000_000 // (n * WIDTH))
            alone, both = (measure(functions, arguments.repeats, inner) for measure in (alternate, twice))
            row = {
                "what": what, "dtype": dtype, "rows": n, "k": k, "kernel": alone[0], "library": alone[1],
                "alone": alone[1] / alone[0], "two_threads": both[1] / both[0],
            }  # fmt: skip
            rows.append(row)
            print(
                f"{what:18} {dtype:8} {n:7} {k:3} {1e6 * row['kernel']:8.1f}µs {1e6 * row['library']:8.1f}µs  "
                f"{row['alone']:5.2f} {row['two_threads']:5.2f}",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
