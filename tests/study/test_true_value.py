"""The true value: exact where it can be, else from rollouts, and refused where rollouts would tell another one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.domains.domain import Domain, Truth
from evenroll.domains.tabular import tabular_domain
from evenroll.errors import PolicyError, SpecError
from evenroll.policies import TabularSoftmax
from evenroll.study.training import initial_policy
from evenroll.study.true_value import BLOCK, truth, value_by_rollouts
from tests.domains.walk import walk


def chain() -> Domain:
    """Two states; the left one is left with probability ½ under the uniform policy, and leaving pays 1."""
    P = np.zeros((2, 2, 2))
    P[0, 0, 0] = P[0, 1, 1] = P[1, :, 1] = 1.0
    return tabular_domain("chain", P, [[0.0, 1.0], [0.0, 0.0]], [1.0, 0.0], [False, True], gamma=0.5, horizon=3)


UNIFORM = TabularSoftmax(np.zeros((2, 2)))


def test_a_finite_domain_of_ones_own_is_solved() -> None:
    """½ + ½·½·½ + ½·¼·¼ = 21/32; the length is 1, 2 or 3 with probabilities ½, ¼, ¼."""
    known = truth(chain(), UNIFORM, episodes=1)
    assert (known.value, known.value_se, known.mean_length) == pytest.approx((21 / 32, 0.0, 1.75), rel=1e-14)


@pytest.mark.statistical
def test_rollouts_agree_with_the_exact_value(base_seed: int) -> None:
    """40,000 episodes at 4.2 standard errors, and the standard error itself, known to 0.4 %, within 5 %.
    P(false) ≤ 3e-5. Catches a value off by 0.02 of a standard deviation."""
    exact = truth(chain(), UNIFORM)
    found = value_by_rollouts(chain(), UNIFORM, 2 * BLOCK, seed=base_seed)
    assert abs(found.value - exact.value) < 4.2 * found.value_se
    assert found.value_se == pytest.approx(np.sqrt(exact.variance / (2 * BLOCK)), rel=0.05)


def test_rollouts_do_not_depend_on_the_workers_and_come_in_whole_blocks() -> None:
    domain = walk()
    policy = initial_policy(domain, np.random.default_rng(0))
    seen: list[tuple[int, int]] = []
    one = truth(domain, policy, episodes=BLOCK + 1, workers=1, progress=lambda done, total: seen.append((done, total)))
    assert one == value_by_rollouts(domain, policy, 2 * BLOCK, workers=2)
    assert one.value_se > 0
    assert seen[-1] == (2, 2)


def test_a_policy_for_another_domain_is_refused() -> None:
    with pytest.raises(PolicyError):
        truth(chain(), TabularSoftmax(np.zeros((3, 2))))


def test_a_redrawn_domain_has_no_value_by_rollouts() -> None:
    domain = get_domain("bandit:redraw=1,mean_factor=4")
    assert truth(domain, domain.policy()).value == 2.0
    with pytest.raises(SpecError, match="another environment in every trial"):
        value_by_rollouts(domain, domain.policy(), 10)
    with pytest.raises(SpecError, match="another environment"):
        truth(dataclasses.replace(domain, average=None), domain.policy())
    assert isinstance(domain.known_truth(domain.policy(), (1,)), Truth)
