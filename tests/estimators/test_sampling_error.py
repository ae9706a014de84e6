"""The two measures of sampling error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evenroll.domains.catalogue import get_domain
from evenroll.estimators.behavior_fit import (
    with_features,
    with_fit,
)
from evenroll.estimators.sampling_error import gradient_sampling_error, gradient_sampling_errors, kl_sampling_error
from evenroll.policies import MLP
from tests.helpers import trial


@pytest.mark.parametrize("name", ["gridworld", "cartpole", "cartpole-continuous"])
def test_all_checkpoints_at_once(name: str, base_seed: int) -> None:
    policy, data = get_domain(name).policy(), trial(name, "os", (base_seed,), episodes=60)
    points = (0, 17, 100, 256)
    together = gradient_sampling_errors(data, policy, points)
    assert np.isnan(together[0])
    fitted = with_fit(data, policy)
    for i, steps in list(enumerate(points))[1:]:
        part = data.prefix(steps)
        assert together[i] == pytest.approx(gradient_sampling_error(part, policy), rel=1e-3)
        assert fitted.prefix(steps).log_fit is None  # the fit belongs to all of the data
        assert kl_sampling_error(with_fit(part, policy), policy) == kl_sampling_error(part, policy)


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "parameters"), [("cartpole", 65), ("cartpole-continuous", 130)])
def test_likelihood_ratio_of_on_policy_data(name: str, parameters: int, base_seed: int) -> None:
    """2N·KL is about χ² with as many degrees of freedom as the head has parameters that matter (25 runs: 63 ± 11, 125 ± 18).
    P(false) ≤ 2e-5: outside the quantiles 1e-6 and 1 − 1e-6, with some room for features that are never active.
    Catches a fit that stops short of the optimum by half, and one of other parameters than the head's."""
    policy, data = get_domain(name).policy(), trial(name, "os", (base_seed,), episodes=400)
    assert isinstance(policy, MLP)
    ratio = 2 * data.steps * kl_sampling_error(data, policy)
    low, high = stats.chi2.ppf([1e-6, 1 - 1e-6], parameters)
    assert low < ratio < high
    kept = with_features(data, policy)
    assert kept.prefix(50).column("features").shape == (50, policy.head_weight.shape[1] + 1)
