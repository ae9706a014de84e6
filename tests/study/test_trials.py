"""One trial of a study: what is shared between methods, and what is not."""

from __future__ import annotations

import numpy as np

from evenroll.domains.catalogue import get_domain
from evenroll.study.trials import checkpoints_for, initial_data
from tests.helpers import trial


def test_initial_data_has_random_numbers_of_its_own() -> None:
    """With δ = 0 it is on-policy. Were its actions drawn from the trial's stream, they would be the trial's, and its
    rewards too if its environment shared that of the trial."""
    domain = get_domain("bandit")
    first = initial_data(domain, domain.policy(), (5,), episodes=200, delta=0.0)
    later = trial(domain, "os", (5,), episodes=200)
    assert (first.actions != later.actions).mean() > 0.5
    same = first.actions[:, 0] == later.actions[:, 0]
    assert same.any()
    assert (first.rewards[same] != later.rewards[same]).all()


def test_methods_share_the_environment_and_the_initial_data() -> None:
    domain = get_domain("gridworld")
    a, b = (initial_data(domain, domain.policy(), (5, 3), episodes=20) for _ in range(2))
    np.testing.assert_array_equal(a.actions, b.actions)
    assert (initial_data(domain, domain.policy(), (5, 4), episodes=20).actions[:20] != a.actions[:20]).any()


def test_checkpoints_double_and_end_at_the_budget() -> None:
    assert checkpoints_for(7.5, 6.0, initial=False) == (7, 15, 30, 45)
    assert checkpoints_for(7.5, 4.0, initial=True) == (0, 7, 15, 30)
