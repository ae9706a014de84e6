"""Doubly robust estimates: one Q̂ serves all that need it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.estimators.doubly_robust import doubly_robust, weighted_doubly_robust
from evenroll.estimators.fqe import fitted_q_evaluation, with_q
from tests.helpers import trial


@pytest.mark.parametrize("name", ["gridworld", "cartpole", "cartpole-continuous"])
def test_one_q_serves_all_that_need_it(name: str, base_seed: int) -> None:
    policy, data = get_domain(name).policy(), trial(name, "os", (base_seed,), episodes=60)
    shared = with_q(data, policy)
    assert shared.prefix(100).q_fit is None  # it belongs to all of the data
    assert shared.q_fit is not None
    higher = replace(shared, q_fit=(shared.q_fit[0], 1.5 * shared.q_fit[1]))  # a constant in both would cancel
    for estimate in (fitted_q_evaluation, doubly_robust, weighted_doubly_robust):
        assert estimate(shared, policy) == estimate(data, policy)
        assert estimate(higher, policy) != estimate(data, policy)  # what is carried is what is used
