"""ROS in the head: it is ROS where a policy is all head, and moves nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.samplers import ROS
from evenroll.samplers.ros_head import ROSHead
from tests.helpers import TABLES, double_policy, linear_policy, same_data, trial


@pytest.mark.parametrize("name", TABLES)
def test_ros_head_on_a_table_is_ros_bit_for_bit(name: str) -> None:
    alpha = get_domain(name).paper["ros"]["alpha"]
    a, b = (trial(name, kind(alpha), steps=3000) for kind in (ROS, ROSHead))
    same_data(a, b)
    np.testing.assert_array_equal(a.log_b, b.log_b)


@pytest.mark.parametrize(
    ("name", "head", "scale"),
    [
        ("cartpole", "softmax", "softplus"),
        ("cartpole-continuous", "gaussian", "softplus"),
        ("cartpole-continuous", "gaussian", "log_std"),
    ],
)
def test_ros_head_is_ros_for_a_policy_that_is_all_head(name: str, head: str, scale: str, base_seed: int) -> None:
    policy = linear_policy(head, np.random.default_rng(base_seed), scale)
    a, b = (trial(name, kind(0.5), policy=policy, steps=1000) for kind in (ROS, ROSHead))
    np.testing.assert_allclose(a.actions, b.actions, atol=1e-6)
    np.testing.assert_allclose(a.log_b, b.log_b, atol=1e-6)
    assert np.abs(b.log_b - b.log_e).max() > 1e-3


def test_ros_head_moves_only_the_last_layer() -> None:
    """ROS on the same data with every score but the head's set to 0."""
    policy, alpha = double_policy("cartpole"), 5.0
    data = trial("cartpole", ROSHead(alpha), policy=policy, steps=150)
    S, head = np.zeros(policy.parameters), policy.head_weight.size + policy.head_bias.size
    for k in range(150):
        s, a = data.observations[k], data.actions[k]
        p = policy.probabilities(s, S, alpha / k if k else 0.0)
        assert np.log(p[int(a[0])]) == pytest.approx(data.log_b[k], abs=1e-9)
        score = policy.score(s, a)
        score[:-head] = 0.0
        S += score
