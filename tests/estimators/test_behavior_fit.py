"""π̂ against general-purpose optimisers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError
from evenroll.estimators.behavior_fit import (
    Curvature,
    GaussianHead,
    SoftmaxHead,
    fitted_log_probs,
    maximise,
)
from evenroll.policies import Policy, TabularSoftmax
from evenroll.policies.distributions import MEAN_LINKS, SCALE_LINKS


@pytest.mark.parametrize("n", [2, 3])
def test_softmax_fit_is_the_optimum(n: int) -> None:
    rng = np.random.default_rng(n)
    psi = np.append(np.maximum(rng.normal(size=(500, 6)), 0.0), np.ones((500, 1)), axis=1)
    actions = rng.integers(n, size=500)
    model = SoftmaxHead(psi, actions, n)
    start = rng.normal(size=7 * (n - 1))
    best = optimize.minimize(
        lambda x: -model.log_probs(x)[0].sum(), start, jac=lambda x: -model.gradient(model.log_probs(x)[1]), tol=1e-12
    )
    assert maximise(model, start).sum() == pytest.approx(-best.fun, abs=1e-4)
    difference = optimize.check_grad(
        lambda x: model.log_probs(x)[0].sum(), lambda x: model.gradient(model.log_probs(x)[1]), start
    )
    assert difference < 1e-3


@pytest.mark.parametrize("scale", ["softplus", "exp"])
@pytest.mark.parametrize("mean", ["tanh", "identity"])
def test_gaussian_fit_is_the_optimum(mean: str, scale: str) -> None:
    rng = np.random.default_rng(7)
    psi = np.append(np.maximum(rng.normal(size=(400, 5)), 0.0), np.ones((400, 1)), axis=1)
    phi = psi if scale == "softplus" else np.ones((400, 1))
    start = np.concatenate([0.2 * rng.normal(size=6), 0.2 * rng.normal(size=phi.shape[1])])
    links = MEAN_LINKS[mean], SCALE_LINKS[scale]
    model = GaussianHead(psi, phi, np.tanh(psi @ start[:6]) + 0.5 * rng.normal(size=400), *links)
    curvature = Curvature(model, model.log_probs(start)[1])
    prior = curvature.prior

    def objective(x: np.ndarray) -> float:
        return float(-model.log_probs(x)[0].sum() + 0.5 * prior @ (x - start) ** 2)

    best = optimize.minimize(objective, start, tol=1e-10)
    fitted = maximise(model, start).sum()
    assert fitted == pytest.approx(model.log_probs(best.x)[0].sum(), abs=2e-2)
    assert (
        optimize.check_grad(lambda x: model.log_probs(x)[0].sum(), lambda x: model.gradient(model.log_probs(x)[1]), start)
        < 1e-2
    )
    assert (prior < np.concatenate([np.diag(g) for g in curvature.grams]) / 100).all()  # a prior of one step in 400


def test_separable_data_is_fitted_with_certainty() -> None:
    psi = np.append(np.linspace(-1, 1, 40)[:, None], np.ones((40, 1)), axis=1)
    model = SoftmaxHead(psi, (psi[:, 0] > 0).astype(int), 2)
    log_p = maximise(model, np.zeros(2))
    assert -1e-3 < log_p.sum() <= 0.0


def test_a_certain_policy_does_not_hold_the_fit() -> None:
    """θ_e gives probability e⁻⁴⁰ to what the data does a quarter of the time."""
    model = SoftmaxHead(np.ones((400, 1)), (np.arange(400) % 4 == 0).astype(int), 2)
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
