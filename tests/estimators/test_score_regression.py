"""Regression on the scores: the scores, the model behind them, folds apart, and least squares."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.estimators.score_regression import ActionPart, regress


def test_the_regression_is_least_squares_with_an_intercept(base_seed: int) -> None:
    """Against the textbook: intercept, its standard error, and what is left of the freedom. Exact for any numbers."""
    rng = np.random.default_rng(base_seed)
    C = rng.normal(0.3, 1.0, (2, 50))
    gaps = 4.0 + 2.0 * C[0] - 3.0 * C[1] + rng.normal(size=50)
    parts = [ActionPart(c, together=0.0, loose=1.0, unseen=u) for c, u in zip(C, (0.0, 0.1), strict=True)]
    fit = regress(gaps, parts)
    X = np.column_stack([np.ones(50), *C])
    beta, rss, _, _ = np.linalg.lstsq(X, gaps, rcond=None)
    error = np.sqrt(rss[0] / 47 * np.linalg.inv(X.T @ X)[0, 0])
    assert (fit.value, fit.error, fit.freedom) == pytest.approx((beta[0], error, 47))
    assert fit.imbalance == pytest.approx(beta[1:] @ C.mean(axis=1))
    assert fit.unseen == 0.1
