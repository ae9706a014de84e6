"""π̂ against general-purpose optimisers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError
from evenroll.estimators.behavior_fit import (
    CLOSE,
    Curvature,
    GaussianHead,
    SoftmaxHead,
    fits_of_beginnings,
    fitted_log_probs,
    maximise,
)
from evenroll.policies import MLP, Policy, TabularSoftmax


@pytest.mark.parametrize("n", [2, 3])
def test_softmax_fit_is_the_optimum(n: int) -> None:
    rng = np.random.default_rng(n)
    psi = np.append(np.maximum(rng.normal(size=(500, 6)), 0.0), np.ones((500, 1)), axis=1)
    actions = rng.integers(n, size=500).astype(float)
    model = SoftmaxHead(psi, actions, n)
    start = rng.normal(size=7 * (n - 1))
    best = optimize.minimize(lambda x: -model.at(x).log_p.sum(), start, jac=lambda x: -model.at(x).gradient, tol=1e-12)
    assert maximise(model, start).sum() == pytest.approx(-best.fun, abs=1e-4)
    difference = optimize.check_grad(lambda x: model.at(x).log_p.sum(), lambda x: model.at(x).gradient, start)
    assert difference < 1e-3


@pytest.mark.parametrize("scale", ["softplus", "exp"])
@pytest.mark.parametrize("mean", ["tanh", "identity"])
def test_gaussian_fit_is_the_optimum(mean: str, scale: str) -> None:
    rng = np.random.default_rng(7)
    psi = np.append(np.maximum(rng.normal(size=(400, 5)), 0.0), np.ones((400, 1)), axis=1)
    tied = scale == "softplus"
    start = np.concatenate([0.2 * rng.normal(size=6), 0.2 * rng.normal(size=6 if tied else 1)])
    model = GaussianHead(psi, np.tanh(psi @ start[:6]) + 0.5 * rng.normal(size=400), tied, mean, scale)
    curvature = Curvature.of(model, model.at(start))
    prior = curvature.prior()

    def objective(x: np.ndarray) -> float:
        return float(-model.at(x).log_p.sum() + 0.5 * prior @ (x - start) ** 2)

    best = optimize.minimize(objective, start, tol=1e-10)
    fitted = maximise(model, start).sum()
    assert fitted == pytest.approx(model.at(best.x).log_p.sum(), abs=2e-2)
    assert optimize.check_grad(lambda x: model.at(x).log_p.sum(), lambda x: model.at(x).gradient, start) < 1e-2
    assert (prior < np.concatenate([np.diag(g) for g in curvature.grams]) / 100).all()  # a prior of one step in 400


@pytest.mark.parametrize("kind", ["softmax", "gaussian", "log_std", "table"])
def test_fits_of_beginnings_are_fits_of_prefixes(kind: str) -> None:
    """What is shared at θ_e changes no fit; a beginning may have no step, and may be asked for twice."""
    rng = np.random.default_rng(5)
    n = 400
    policy: Policy = TabularSoftmax(rng.normal(size=(5, 3)))
    observations, actions = rng.integers(5, size=(n, 1)).astype(float), rng.integers(3, size=(n, 1)).astype(float)
    if kind != "table":
        settings = {} if kind == "softmax" else {"head": "gaussian"}
        if kind == "log_std":
            settings |= {"scale": "log_std", "log_std": np.array([-0.5, 0.3, 0.1]), "mean": "identity"}
        outputs = 6 if kind == "gaussian" else 3
        layer = (rng.normal(size=(6, 4)), rng.normal(size=6))
        policy = MLP([layer], rng.normal(size=(outputs, 6)) / 2, rng.normal(size=outputs) / 2, **settings)
        observations = rng.normal(size=(n, 4))
        actions = actions if kind == "softmax" else rng.normal(size=(n, 3))
    data = Rollouts(
        1.0, n, np.zeros(1), np.array([n]), np.ones(1, bool), observations=observations, actions=actions,
        rewards=np.zeros(n), log_e=np.zeros(n),
    )  # fmt: skip
    lengths = [0, 50, 50, 129, 400]
    for length, found in zip(lengths, fits_of_beginnings(policy, data, lengths), strict=True):
        expected = fitted_log_probs(policy, data.prefix(length))
        assert found.shape == (length,)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)


def test_separable_data_is_fitted_with_certainty() -> None:
    psi = np.append(np.linspace(-1, 1, 40)[:, None], np.ones((40, 1)), axis=1)
    model = SoftmaxHead(psi, (psi[:, 0] > 0).astype(float), 2)
    log_p = maximise(model, np.zeros(2))
    assert -CLOSE < log_p.sum() <= 0.0


def test_a_certain_policy_does_not_hold_the_fit() -> None:
    """θ_e gives probability e⁻⁴⁰ to what the data does a quarter of the time."""
    model = SoftmaxHead(np.ones((400, 1)), (np.arange(400) % 4 == 0).astype(float), 2)
    expected = 100 * np.log(0.25) + 300 * np.log(0.75)
    assert maximise(model, np.array([-40.0])).sum() == pytest.approx(expected, abs=1e-4)


def test_table_fit_counts() -> None:
    data = Rollouts(
        1.0, 4, np.zeros(1), np.array([4]), np.ones(1, bool), observations=np.array([[0.0], [0.0], [0.0], [1.0]]),
        actions=np.array([[1.0], [0.0], [1.0], [0.0]]),
    )  # fmt: skip
    np.testing.assert_allclose(np.exp(fitted_log_probs(TabularSoftmax(np.zeros((2, 2))), data)), [2 / 3, 1 / 3, 2 / 3, 1.0])


def test_unknown_policies_are_refused() -> None:
    data = Rollouts(
        1.0, 1, np.zeros(1), np.array([1]), np.ones(1, bool), observations=np.ones((1, 1)), actions=np.ones((1, 1))
    )
    with pytest.raises(DataError, match="not known"):
        fitted_log_probs(Policy(), data)


def test_a_curvature_that_all_but_vanishes_is_computed_anew() -> None:
    """Large weights that are subtracted again leave rounding errors, which may be below zero."""
    rng = np.random.default_rng(0)
    model = GaussianHead(rng.uniform(0.5, 1.0, size=(300, 4)), rng.normal(size=300), True, "identity", "exp")
    steep, flat = np.append(np.zeros(4), np.full(4, -9.0)), np.append(np.zeros(4), np.full(4, 9.0))
    curvature = Curvature.of(model, model.at(steep))
    curvature.update(model, model.at(flat))
    for gram, expected in zip(curvature.grams, Curvature.of(model, model.at(flat)).grams, strict=True):
        np.testing.assert_allclose(gram, expected, rtol=1e-12, atol=1e-12 * np.diag(expected).min())
