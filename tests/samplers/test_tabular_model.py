"""Designs from a tabular model refuse what is no table, and never do what the policy does not."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.collection.trial import Driver
from evenroll.domains.tabular import tabular_environment
from evenroll.errors import SpecError
from evenroll.policies import MLP, TabularSoftmax
from evenroll.samplers.odi import ODI
from evenroll.samplers.props import PROPS
from evenroll.samplers.roa import ROA
from evenroll.samplers.table import get_sampler
from tests.helpers import NETWORKS, trial


@pytest.mark.parametrize("spec", ["revar", "odi"])
@pytest.mark.parametrize("name", NETWORKS)
def test_tabular_designs_refuse_networks(name: str, spec: str) -> None:
    with pytest.raises(SpecError, match=f"{spec} needs a tabular policy"):
        trial(name, get_sampler(spec), steps=10)


@pytest.mark.parametrize("spec", ["revar:first=5", "odi:first=5"])
@pytest.mark.parametrize("impossible", [0, 1, 2])
def test_what_the_policy_never_does_is_never_done(spec: str, impossible: int) -> None:
    """Before the first design and after; the other actions are all taken, and each step's weight averages 1."""
    probabilities = np.array([[0.4, 0.4, 0.4], [0.3, 0.5, 0.6]])
    probabilities[:, impossible] = 0.0
    policy = TabularSoftmax.from_probabilities(probabilities / probabilities.sum(axis=1, keepdims=True))
    env = tabular_environment(np.full((2, 3, 2), 0.5), [[1.0, 2.0, -3.0], [0.5, -2.0, 9.0]], [0.5, 0.5])
    data = trial("gridworld", get_sampler(spec), policy=policy, env=env, steps=3000)
    assert set(data.actions[:, 0]) == {0, 1, 2} - {impossible}
    assert np.isfinite(data.log_b).all()
    assert np.exp(data.log_e - data.log_b).mean() == pytest.approx(1.0, abs=0.1)


def test_a_sampler_whose_single_step_would_take_long_is_refused_beforehand() -> None:
    """A compiled step cannot be interrupted: fits of large models, searches among many candidates, fits of wide networks."""
    table = TabularSoftmax(np.zeros((500, 2)))
    wide = MLP([(np.ones((2048, n)), np.zeros(2048)) for n in (4, 2048)], np.ones((2, 2048)), np.zeros(2))
    real = MLP([], np.ones((2, 4)), np.zeros(2), head="gaussian")
    for policy, sampler in ((table, ODI()), (wide, PROPS()), (real, ROA(0.5, candidates=10**9))):
        with pytest.raises(SpecError, match=r"is more than 400000|longer than a second"):
            Driver(policy, sampler, (0,), gamma=1.0, horizon=5)
