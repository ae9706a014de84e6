"""ROS between trajectories: on-policy within one, ROS where one is a step."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.samplers import ROS, OnPolicy
from evenroll.samplers.ros_episode import ROSEpisode
from tests.helpers import same_data, trial


@pytest.mark.parametrize("name", DOMAINS)
def test_ros_episode_is_on_policy_within_the_first_trajectory(name: str) -> None:
    alpha = get_domain(name).paper["ros"]["alpha"]
    data = trial(name, ROSEpisode(alpha), episodes=2)
    same_data(trial(name, OnPolicy(), episodes=1), trial(name, ROSEpisode(alpha), episodes=1))
    np.testing.assert_array_equal(data.log_e[: data.ends[0]], data.log_b[: data.ends[0]])
    if name != "bandit":
        assert (data.log_e != data.log_b)[data.ends[0] :].any()


def test_ros_episode_is_ros_where_trajectories_are_one_step() -> None:
    same_data(trial("bandit", ROS(1e4), steps=3000), trial("bandit", ROSEpisode(1e4), steps=3000))


def test_ros_episode_acts_on_the_scores_of_finished_trajectories() -> None:
    policy, alpha = get_domain("gridworld").policy(), 700.0
    data = trial("gridworld", ROSEpisode(alpha), episodes=30)
    start = 0
    for end in data.ends:
        S = policy.score_sum(data.observations[:start], data.actions[:start])
        for t in range(start, end):
            p = policy.probabilities(data.observations[t], S, alpha / start if start else 0.0)
            assert np.log(p[int(data.actions[t, 0])]) == pytest.approx(data.log_b[t], abs=1e-9)
        start = end
