"""Passes over rows of features against NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from evenroll.errors import DataError
from evenroll.estimators.head_passes import gaussian_pass, log_1_plus, softmax_pass
from evenroll.policies.distributions import MEAN_LINKS, SCALE_LINKS, log_softmax, normal_log_density, softmax


def test_the_series_of_the_logarithm() -> None:
    for e in [0.0, 1.0, *np.logspace(-300, 0, 1001)]:
        assert log_1_plus(float(e)) == pytest.approx(math.log1p(e), rel=5e-16, abs=0.0)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 127, 128, 129, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_passes_agree_with_numpy(n: int, dtype: type) -> None:
    """Values, slopes and gradients of both kinds of heads, around the ends of blocks and with outputs of any size."""
    rng = np.random.default_rng(n)
    psi, size = rng.normal(size=(n, 7)).astype(dtype), 10.0 ** rng.integers(-2, 3)
    for k in (2, 4):
        actions, x = rng.integers(k, size=n), size * rng.normal(size=(k - 1, 7))
        log_p, p, gradient = softmax_pass(psi, actions.astype(float), x)
        outputs = np.append(np.zeros((n, 1)), psi.astype(float) @ x.T, axis=1)
        scores = np.eye(k)[actions] - softmax(outputs)
        np.testing.assert_allclose(log_p, log_softmax(outputs)[np.arange(n), actions], rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(p, softmax(outputs).T, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(gradient, scores[:, 1:].T @ psi.astype(float), rtol=1e-9, atol=1e-9)
    for mean, scale, tied in itertools.product(MEAN_LINKS, SCALE_LINKS, (True, False)):
        actions, x = rng.normal(size=n), min(size, 2.0) * rng.normal(size=14 if tied else 8)
        log_p, by_mean, by_scale, gradient = gaussian_pass(psi, actions, x, tied, mean == "tanh", scale == "softplus")
        of_mean, of_scale = psi.astype(float) @ x[:7], psi.astype(float) @ x[7:] if tied else np.full(n, x[7])
        means, scales = MEAN_LINKS[mean].of(of_mean), SCALE_LINKS[scale].of(of_scale)
        z = (actions - means) / scales
        slopes = MEAN_LINKS[mean].slope(means) / scales, SCALE_LINKS[scale].slope(scales) / scales
        by_output = np.stack([slopes[0] * z, slopes[1] * (z**2 - 1.0)])
        expected = by_output @ psi.astype(float) if tied else np.append(by_output[0] @ psi.astype(float), by_output[1].sum())
        np.testing.assert_allclose(log_p, normal_log_density(z, np.log(scales)), rtol=1e-10)
        np.testing.assert_allclose(by_mean, slopes[0], rtol=1e-8, atol=1e-13 * np.max(1 / scales))
        np.testing.assert_allclose(by_scale, slopes[1], rtol=1e-11)
        np.testing.assert_allclose(gradient, expected.ravel(), rtol=1e-8, atol=1e-10 * np.abs(by_output).sum())


@pytest.mark.parametrize("wrong", [-1.0, 2.0, np.nan, np.inf])
def test_actions_that_are_none_are_refused(wrong: float) -> None:
    """They are indices of memory."""
    with pytest.raises(DataError, match="none of the numbers 0 to 1"):
        softmax_pass(np.ones((3, 2)), np.array([0.0, wrong, 1.0]), np.zeros((1, 2)))


def test_numbers_of_any_kind_are_taken() -> None:
    """Single precision, integers, read-only arrays and every other row."""
    rng = np.random.default_rng(0)
    psi, actions, x = rng.normal(size=(40, 3)), rng.integers(2, size=40), rng.normal(size=(1, 3))
    for kind in (np.float32, np.int64, np.float64):
        given = np.repeat(actions.astype(kind), 2)[::2]
        given.flags.writeable = False
        for got, wanted in zip(softmax_pass(psi, given, x), softmax_pass(psi, actions.astype(float), x), strict=True):
            np.testing.assert_array_equal(got, wanted)
    real = rng.normal(size=40).astype(np.float32)
    for got, wanted in zip(
        gaussian_pass(psi[::-1], real, np.zeros(6), True, False, False),
        gaussian_pass(psi[::-1].copy(), real.astype(float), np.zeros(6), True, False, False), strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(got, wanted)
