"""Tables: probabilities, huge steps, ε-greedy ones."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.errors import PolicyError
from evenroll.policies import TabularSoftmax, epsilon_greedy


def test_tabular_probabilities_and_huge_steps() -> None:
    table = TabularSoftmax([[0.0, 1.0, -1.0], [5.0, 5.0, 5.0]])
    np.testing.assert_allclose(table.probabilities([1]), 1 / 3)
    shift = np.array([0.0, 1.0, 2.0, 0, 0, 0])
    pushed = table.probabilities([0], shift, 1e8)
    np.testing.assert_array_equal(pushed, [1.0, 0.0, 0.0])


def test_epsilon_greedy() -> None:
    policy = epsilon_greedy([2, 0], 4, 0.2)
    np.testing.assert_allclose(policy.table, [[0.05, 0.05, 0.85, 0.05], [0.85, 0.05, 0.05, 0.05]])
    deterministic = epsilon_greedy([1], 3, 0.0)
    np.testing.assert_array_equal(deterministic.table, [[0.0, 1.0, 0.0]])
    with pytest.raises(PolicyError):
        epsilon_greedy([0], 2, 1.5)
