"""Interrupted in Python: what had finished is there, and says what it would have said had no more been asked for."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.errors import CollectionFault, SpecError
from tests.helpers import IDS


class Struck(gym.Wrapper):
    """Its step is interrupted, once, when so many were taken."""

    def __init__(self, at: int, error: BaseException | None = None) -> None:
        super().__init__(gym.make(IDS["cartpole"]))
        self.left, self.error = at, error or KeyboardInterrupt()

    def step(self, action: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise self.error
        return super().step(action)


FIRST = evenroll.get_domain("cartpole").policy()
SECOND = evenroll.MLP([], head_weight=[[0.0, 0.0, -1.0, -1.0], [0.0, 0.0, 1.0, 1.0]], head_bias=[0.0, 0.0])


def test_evaluate_carries_the_result_so_far() -> None:
    with pytest.raises(KeyboardInterrupt) as told:
        evenroll.evaluate(Struck(1500), FIRST, episodes=1000, seed=3, resets=0)
    stop = told.value
    assert isinstance(stop, evenroll.Interrupted)
    assert not isinstance(stop, Exception)
    n = stop.rollouts.episodes
    straight = evenroll.evaluate(Struck(10**9), FIRST, episodes=n, seed=3, resets=0)
    assert 5 < n < 1000
    assert (stop.result.value, stop.result.low) == (straight.value, straight.low)
    assert (stop.result.interrupted, straight.interrupted) == (True, False)
    assert str(stop.result) == f"{straight}, interrupted"
    assert stop.result.to_json()["interrupted"] is True
    on = evenroll.evaluate(Struck(10**9), FIRST, episodes=5, seed=3, initial=stop.rollouts)
    assert on.episodes == n + 5


def test_before_the_first_episode_there_is_no_result() -> None:
    with pytest.raises(evenroll.Interrupted) as told:
        evenroll.evaluate(Struck(2), FIRST, episodes=1000)
    assert told.value.rollouts.episodes == 0
    assert told.value.result is None


def test_difference_compares_the_starts_that_both_have_met() -> None:
    whole = evenroll.difference(Struck(10**9), FIRST, SECOND, episodes=30)
    with pytest.raises(evenroll.Interrupted) as told:
        evenroll.difference(Struck(whole.first.steps + 700), FIRST, SECOND, episodes=30)
    first, second = told.value.rollouts
    assert first.episodes == 30 > second.episodes > 3
    found = told.value.result
    straight = evenroll.difference(Struck(10**9), FIRST, SECOND, episodes=second.episodes)
    assert (found.value, found.low, found.interrupted) == (straight.value, straight.low, True)
    on = evenroll.difference(Struck(10**9), FIRST, SECOND, episodes=30, initial=(first, second))
    assert on.first.value == whole.first.value
    assert on.first.episodes == on.second.episodes == 30
    np.testing.assert_allclose(on.value, whole.value, atol=30)  # other actions from the same starts
    with pytest.raises(SpecError, match="30 episodes already"):
        evenroll.difference(Struck(10**9), FIRST, SECOND, episodes=20, initial=(first, second))


def test_a_difference_interrupted_in_its_first_half_says_what_the_first_policy_is_worth() -> None:
    with pytest.raises(evenroll.Interrupted) as told:
        evenroll.difference(Struck(700), FIRST, SECOND, episodes=1000)
    assert isinstance(told.value.result, evenroll.Evaluation)
    assert told.value.rollouts[1].episodes == 0


def test_a_fault_in_the_second_half_does_not_cost_the_first() -> None:
    whole = evenroll.difference(Struck(10**9), FIRST, SECOND, episodes=30)
    with pytest.raises(CollectionFault, match="hot") as told:
        evenroll.difference(Struck(whole.first.steps + 700, RuntimeError("hot")), FIRST, SECOND, episodes=30)
    assert told.value.rollouts[0].episodes == 30
    assert told.value.rollouts[1].episodes > 3
