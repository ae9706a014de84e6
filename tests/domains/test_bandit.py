"""The bandit: the published arms, and arms drawn anew for each trial."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain


def test_fixed_bandit_is_the_published_one() -> None:
    """numpy.random.seed(0), 30 means then 30 scales."""
    np.random.seed(0)
    means, scales = np.random.uniform(0, 1, 30), np.random.uniform(0, 1, 30)
    params = get_domain("bandit:mean_factor=2,scale_factor=0.5").environment(None).params
    np.testing.assert_array_equal(params[1:31], 2 * means)
    np.testing.assert_array_equal(params[31:], 0.5 * scales)


def test_redrawn_bandit_differs_by_trial_and_knows_each_value() -> None:
    domain = get_domain("bandit:redraw=1")
    policy = domain.policy()
    values = [domain.known_truth(policy, (0, t)).value for t in range(4)]
    assert len(set(values)) == 4
    env = domain.trial_environment((0, 2))
    assert values[2] == pytest.approx(policy.table[0] @ env.params[1:31], rel=1e-12)
