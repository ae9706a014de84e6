"""What is said of an environment or a policy that hands in nonsense: what it was, where, in which lane, and what is kept."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll import Collector
from evenroll.errors import EnvironmentFault, PolicyFault

LANES = 5
SPACES: dict[str, Any] = {"observation_space": gym.spaces.Box(-9.0, 9.0, (1,)), "action_space": gym.spaces.Discrete(2)}
STATES: dict[str, Any] = {"observation_space": gym.spaces.Discrete(4), "action_space": gym.spaces.Discrete(2)}


def either(observation: np.ndarray) -> list[float]:
    return [0.5, 0.5]


def network() -> evenroll.MLP:
    return evenroll.MLP([], np.ones((2, 1)), np.zeros(2))


@pytest.mark.parametrize("lane", range(LANES))
@pytest.mark.parametrize("policy", [either, network()], ids=["function", "network"])
def test_a_bad_observation_is_told_of_its_own_lane(policy: Any, lane: int) -> None:
    """All lanes have finished an episode, and are in the second step of another."""
    collector = Collector(policy, "os", lanes=LANES, seed=8, **SPACES)
    for over in (True, False):
        collector.act(np.zeros((LANES, 1)))
        collector.observe(np.ones(LANES), np.full(LANES, over))
    seen = np.zeros((LANES, 1))
    seen[lane] = np.inf
    with pytest.raises(EnvironmentFault, match=r"observation is not finite \(\[inf\]\): episode") as found:
        collector.act(seen)
    fault = found.value
    assert (fault.episode, fault.step, fault.seed) == (LANES + lane, 1, 8)
    assert str(fault).endswith(
        f"episode {LANES + lane}, step 1, seed 8, lane {lane}; {LANES} finished episodes are kept (error.rollouts)"
    )
    assert fault.rollouts.episodes == LANES


@pytest.mark.parametrize("lane", range(3))
def test_a_deterministic_policy_is_as_careful(lane: int) -> None:
    collector = Collector(network(), "os", lanes=3, deterministic=True, **SPACES)
    seen = np.zeros((3, 1))
    seen[lane] = np.nan
    with pytest.raises(EnvironmentFault, match=rf"not finite \(\[nan\]\): episode {0}, step 0, seed 0, lane {lane}$"):
        collector.act(seen)


@pytest.mark.parametrize("lane", range(3))
def test_what_is_no_state_is_told(lane: int) -> None:
    collector = Collector(evenroll.TabularSoftmax(np.zeros((4, 2))), "os", lanes=3, **STATES)
    seen = np.zeros(3)
    seen[lane] = 4
    with pytest.raises(evenroll.EvenrollError, match=r"a state number was observed outside 0 … 3"):
        collector.act(seen)


@pytest.mark.parametrize("lane", range(3))
def test_an_output_that_is_not_finite_is_the_policys_fault(lane: int) -> None:
    """The network's weight is so large that an observation of 9 is too much for it."""
    policy = evenroll.MLP([], np.array([[3e38], [0.0]]), np.zeros(2))
    collector = Collector(policy, "os", lanes=3, **SPACES)
    seen = np.zeros((3, 1))
    seen[lane] = 9.0
    with pytest.raises(PolicyFault, match=rf"step 0, seed 0, lane {lane}$"):
        collector.act(seen)


def test_a_policy_that_raises_is_told_with_its_words() -> None:
    broken: list[bool] = []

    def breaks(x: np.ndarray) -> list[float]:
        if broken:
            raise RuntimeError("no such key\nand more")
        return [0.5, 0.5]

    collector = Collector(breaks, "os", **SPACES)
    collector.act(np.zeros(1))
    collector.observe(1.0, True)
    broken.append(True)
    with pytest.raises(evenroll.EvenrollError, match="RuntimeError: no such key") as found:
        collector.act(np.full(1, 9.0))
    assert "more" not in str(found.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1.0, 2.0], [False] * 3), r"reward.* of shape \[2\] for 3 lanes"),
        (([1.0] * 3, [False] * 2), r"flags `terminated` of shape \[2\] for 3 lanes"),
        (([1.0] * 3, [0, 2, 0]), "flags `terminated` must be true or false"),
        (([1.0] * 3, [False] * 3, [0, 0, -1]), "flags `truncated` must be true or false"),
    ],
)
def test_numbers_of_lanes_must_fit(arguments: tuple[Any, ...], words: str) -> None:
    collector = Collector(either, "os", lanes=3, **SPACES)
    collector.act(np.zeros((3, 1)))
    with pytest.raises(EnvironmentFault, match=words):
        collector.observe(*(np.array(x) for x in arguments))


@pytest.mark.parametrize("lanes", [None, 2])
def test_an_episode_without_end_is_told_early(lanes: int | None) -> None:
    """The remedy fits: a horizon for one environment, a time limit in each of several."""
    collector = Collector(either, "os", lanes=lanes, **SPACES)
    collector.longest = 5
    one = np.zeros(1) if lanes is None else np.zeros((2, 1))

    def steps(n: int) -> None:
        for _ in range(n):
            collector.act(one)
            collector.observe(1.0 if lanes is None else np.ones(2), False if lanes is None else np.zeros(2, bool))

    steps(4)
    with pytest.raises(EnvironmentFault, match="has not ended after 5 steps") as found:
        steps(1)
    assert ("TimeLimit" in str(found.value)) is (lanes == 2)
    assert ("horizon=" in str(found.value)) is (lanes is None)
    assert collector.steps == 5 * (lanes or 1)
