"""Training: the command that is named as provenance makes the shipped policy again."""

from __future__ import annotations

import numpy as np

from evenroll.domains.catalogue import get_domain
from evenroll.domains.domain import provenance


def test_the_provenance_command_makes_the_shipped_policy_again() -> None:
    from evenroll.study.training import reinforce

    stored = provenance("gridworld")
    policy = reinforce(
        get_domain("gridworld"), episodes=stored["episodes"], learning_rate=stored["learning_rate"], seed=stored["seed"]
    )
    np.testing.assert_allclose(policy.table, get_domain("gridworld").policy().table, atol=1e-9)
