"""π̂ against general-purpose optimisers, and the two measures of sampling error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats

from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.engine.thin_matrices import apply, column_counts, column_sums, solve_positive, weighted_gram, weighted_product
from evenroll.errors import DataError
from evenroll.estimators.behavior_fit import (
    Curvature,
    GaussianHead,
    SoftmaxHead,
    fitted_log_probs,
    maximise,
    with_features,
    with_fit,
)
from evenroll.estimators.doubly_robust import doubly_robust, weighted_doubly_robust
from evenroll.estimators.fqe import fitted_q_evaluation, with_q
from evenroll.estimators.sampling_error import gradient_sampling_error, gradient_sampling_errors, kl_sampling_error
from evenroll.policies import MLP, Policy, TabularSoftmax
from evenroll.policies.distributions import MEAN_LINKS, SCALE_LINKS
from evenroll.samplers import OnPolicy


@pytest.mark.parametrize(("n", "m", "k"), [(0, 3, 2), (1, 1, 1), (7, 5, 3), (600, 9, 12)])
def test_tall_products(n: int, m: int, k: int) -> None:
    rng = np.random.default_rng(n)
    x, y, w, matrix = rng.normal(size=(n, m)), rng.normal(size=(n, k)), rng.normal(size=n), rng.normal(size=(m, k))
    x[rng.random(x.shape) < 0.5] = 0.0
    for ours, theirs in (
        (weighted_product(x, w, y), x.T @ (w[:, None] * y)), (weighted_gram(x, w), x.T @ (w[:, None] * x)),
        (column_counts(x), (x != 0.0).sum(axis=0)),
        (column_sums(x, w), x.T @ w), (apply(x, matrix), x @ matrix),
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


def collected(name: str, episodes: int, seed: int) -> tuple[Policy, Rollouts]:
    domain = get_domain(name)
    policy = domain.policy()
    driver = Driver(policy, OnPolicy(), (seed,), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
    return policy, driver.run(domain.trial_environment((seed,)), episodes=episodes)


@pytest.mark.parametrize("name", ["gridworld", "cartpole", "cartpole-continuous"])
def test_all_checkpoints_at_once(name: str, base_seed: int) -> None:
    policy, data = collected(name, 60, base_seed)
    points = (0, 17, 100, 256)
    together = gradient_sampling_errors(data, policy, points)
    assert np.isnan(together[0])
    fitted = with_fit(data, policy)
    for i, steps in list(enumerate(points))[1:]:
        part = data.prefix(steps)
        assert together[i] == pytest.approx(gradient_sampling_error(part, policy), rel=1e-3)
        assert fitted.prefix(steps).log_fit is None  # the fit belongs to all of the data
        assert kl_sampling_error(with_fit(part, policy), policy) == kl_sampling_error(part, policy)


@pytest.mark.parametrize("name", ["gridworld", "cartpole", "cartpole-continuous"])
def test_one_q_serves_all_that_need_it(name: str, base_seed: int) -> None:
    policy, data = collected(name, 60, base_seed)
    shared = with_q(data, policy)
    assert shared.prefix(100).q_fit is None  # it belongs to all of the data
    assert shared.q_fit is not None
    higher = replace(shared, q_fit=(shared.q_fit[0] + 1.0, shared.q_fit[1] + 1.0))
    for estimate in (fitted_q_evaluation, doubly_robust, weighted_doubly_robust):
        assert estimate(shared, policy) == estimate(data, policy)
        assert estimate(higher, policy) != estimate(data, policy)  # what is carried is what is used


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "parameters"), [("cartpole", 65), ("cartpole-continuous", 130)])
def test_likelihood_ratio_of_on_policy_data(name: str, parameters: int, base_seed: int) -> None:
    """2N·KL is about χ² with as many degrees of freedom as the head has parameters that matter (25 runs: 63 ± 11, 125 ± 18).
    P(false) ≤ 2e-5: outside the quantiles 1e-6 and 1 − 1e-6, with some room for features that are never active.
    Catches a fit that stops short of the optimum by half, and one of other parameters than the head's."""
    policy, data = collected(name, 400, base_seed)
    assert isinstance(policy, MLP)
    ratio = 2 * data.steps * kl_sampling_error(data, policy)
    low, high = stats.chi2.ppf([1e-6, 1 - 1e-6], parameters)
    assert low < ratio < high
    kept = with_features(data, policy)
    assert kept.prefix(50).column("features").shape == (50, policy.head_weight.shape[1] + 1)
