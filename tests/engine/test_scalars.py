"""Quantiles and exponentials to the last digits."""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy import special

from evenroll.engine.scalars import exp_negative, larger, normal_quantile, smaller, whole


@njit
def _map(f, x):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = f(x[i])
    return y


def test_normal_quantile() -> None:
    p = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 100_001), 10.0 ** -np.arange(1, 300, 3), [0.5, 2.0**-53]])
    np.testing.assert_allclose(_map(normal_quantile, p), special.ndtri(p), rtol=5e-15, atol=1e-15)


def test_exp_negative() -> None:
    x = -np.concatenate([np.linspace(0, 700, 500_001), [0.0, 1e-300, 707.9, 708.1, 800.0, np.inf]])
    np.testing.assert_allclose(_map(exp_negative, x), np.where(x > -708, np.exp(x), 0.0), rtol=1e-15)


@njit
def _chosen(a, b):
    return larger(a, b), smaller(a, b)


def test_the_larger_and_the_smaller_are_those_of_python() -> None:
    """Also where one is nan, where they are equal, and for whole numbers; in compiled code and called from Python."""
    for a, b in [
        (1.0, 2.0),
        (2.0, 1.0),
        (0.0, -0.0),
        (-0.0, 0.0),
        (np.nan, 1.0),
        (1.0, np.nan),
        (-np.inf, np.inf),
        (3, 5),
        (5, 3),
    ]:
        for found in (_chosen(a, b), (larger(a, b), smaller(a, b))):
            assert str(found) == str((max(a, b), min(a, b)))


@njit
def _without_fraction(x):
    return whole(x)


def test_the_fraction_is_left_out() -> None:
    for x in (2.0, 2.999, -2.999, 0.0, 1e15 + 0.5):
        assert _without_fraction(x) == whole(x) == int(x)
