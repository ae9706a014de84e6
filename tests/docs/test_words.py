"""Numbers that the documentation works out by hand, held against the program."""

from __future__ import annotations

import math

import numpy as np

import evenroll


def test_worked_example_of_auto() -> None:
    """docs/auto.md: π = (0.5, 0.3, 0.2) after the counts (2, 1, 1): the next action is drawn from (0.47, 0.462, 0.068)."""
    policy = evenroll.TabularSoftmax(np.log([[0.5, 0.3, 0.2]]))
    found: dict[int, float] = {}
    for seed in range(3000):
        collector = evenroll.Collector(policy, gamma=1.0, seed=seed)
        counts = [0, 0, 0]
        for _ in range(5):
            before = tuple(counts)
            action = int(collector.act(0))
            counts[action] += 1
            collector.observe(0.0, True, False, 0)
        if before == (2, 1, 1):
            found[action] = math.exp(float(collector.rollouts().column("log_b")[-1]))
            if len(found) == 3:
                break
    assert np.allclose([found[0], found[1], found[2]], [0.47, 0.462, 0.068], atol=1e-6)


def test_two_actions_on_the_landing_page() -> None:
    """docs/assets/two-actions.js: level counts are a coin toss; otherwise the action ahead keeps about 0.01."""
    policy = evenroll.TabularSoftmax(np.zeros((1, 2)))
    collector = evenroll.Collector(policy, gamma=1.0, seed=1)
    ahead = 0
    expected = []
    for _ in range(500):
        action = int(collector.act(0))
        sign = 1 if action == 0 else -1
        expected.append(0.5 if ahead == 0 else 0.01 if ahead * sign > 0 else 0.99)
        ahead += sign
        collector.observe(0.0, True, False, 0)
    assert np.allclose(np.exp(collector.rollouts().column("log_b")), expected, atol=5e-3)
    assert 0.01 in expected  # the rare case occurred
