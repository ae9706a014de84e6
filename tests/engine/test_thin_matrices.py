"""Products and solutions of thin matrices against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.engine.thin_matrices import apply, column_counts, solve_positive, weighted_gram, weighted_product


@pytest.mark.parametrize(("n", "m", "k"), [(0, 3, 2), (1, 1, 1), (7, 5, 3), (600, 9, 12)])
def test_tall_products(n: int, m: int, k: int) -> None:
    rng = np.random.default_rng(n)
    x, y, w, matrix = rng.normal(size=(n, m)), rng.normal(size=(n, k)), rng.normal(size=n), rng.normal(size=(m, k))
    x[rng.random(x.shape) < 0.5] = 0.0
    for ours, theirs in (
        (weighted_product(x, w, y), x.T @ (w[:, None] * y)), (weighted_gram(x, w), x.T @ (w[:, None] * x)),
        (column_counts(x), (x != 0.0).sum(axis=0)), (apply(x, matrix), x @ matrix),
    ):  # fmt: skip
        np.testing.assert_allclose(ours, theirs, atol=1e-11)


def test_solve_positive() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(20, 50)) * np.logspace(-4, 4, 20)[:, None]
    A, B = A @ A.T, rng.normal(size=(20, 3))
    np.testing.assert_allclose(A @ solve_positive(A, B, 0.0), B, atol=1e-6)
    dead = np.zeros((2, 2))
    dead[0, 0] = 4.0
    np.testing.assert_allclose(solve_positive(dead, np.array([[8.0], [0.0]]), 1e-12), [[2.0], [0.0]])
