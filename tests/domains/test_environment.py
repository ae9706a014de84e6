"""A compiled environment: what the loop is told of it, and which policies do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from numba import float64

from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.domains.environment import EnvironmentCode, EnvironmentSizes
from evenroll.domains.tabular import tabular_environment
from evenroll.errors import PolicyError
from evenroll.policies import TabularSoftmax


@pytest.mark.parametrize("name", DOMAINS)
def test_the_loop_reads_sizes_and_pieces_by_name(name: str) -> None:
    env = get_domain(name).environment(None)
    sizes, code = EnvironmentSizes(env.sizes()), EnvironmentCode(env.code(float64))
    assert (sizes.reset_uniforms, sizes.step_uniforms, sizes.obs_dim) == (
        env.reset_uniforms,
        env.step_uniforms,
        env.obs_dim,
    )
    assert (code.reset, code.step) == (env.reset.address(float64), env.step.address(float64))
    assert code.reset != code.step


def test_policies_that_do_not_fit_are_refused_with_both_shapes() -> None:
    grid, pole = get_domain("gridworld"), get_domain("cartpole")
    grid.environment(None).check(grid.policy())
    with pytest.raises(PolicyError, match="the policy has 4-d observations and 2 actions, the domain has 1-d"):
        grid.environment(None).check(pole.policy())
    with pytest.raises(PolicyError, match="1-d real actions"):
        get_domain("cartpole-continuous").environment(None).check(pole.policy())
    small = tabular_environment(np.full((3, 4, 3), 1 / 3), np.zeros((3, 4)), [1.0, 0.0, 0.0])
    small.check(TabularSoftmax(np.zeros((3, 4))))
    with pytest.raises(PolicyError, match=r"numbers its states \(0 … 2\)"):
        small.check(grid.policy())
