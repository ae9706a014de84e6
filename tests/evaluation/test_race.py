"""Races: the best wins, the others drop out, equal ones are left, and the winner's value is not the luckiest one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.errors import Interrupted, SpecError
from tests.evaluation.test_deciding import Noisy
from tests.evaluation.test_pairs import Always, Coin

POLICIES = {"poor": Always(20), "good": Always(40), "bad": Always(0), "fair": Always(34)}


def test_the_best_wins_and_others_drop_out() -> None:
    found = evenroll.best(Noisy(), POLICIES, most=200, resets=0)
    assert (found.winner, found.decided) == ("good", True)
    assert found.runners[0].name == "good"
    assert [runner.name for runner in found.runners[1:]] == ["fair", "poor", "bad"]
    out = {runner.name: runner.out for runner in found.runners}
    assert out["good"] is None
    assert out["bad"] <= out["poor"] <= out["fair"] == found.rounds
    assert all(runner.episodes == runner.steps == (runner.out or found.rounds) for runner in found.runners)
    assert found.episodes == sum(r.episodes for r in found.runners) + found.fresh.episodes
    assert found.fresh.episodes == max(10, found.rounds // 2)
    assert found.value == found.fresh.value
    assert "good is the best of 4" in found.in_words()
    assert "fresh episodes it is worth" in found.in_words()
    askew = replace(found, fresh=replace(found.fresh, value=10.0, low=4.0, high=12.0))
    assert "it is worth 10 (4 … 12)." in askew.in_words()  # no ± for an interval that reaches farther on one side
    assert str(found).startswith("good is the best, ")


def test_equal_policies_are_left_unless_there_is_a_margin() -> None:
    pair = [Always(20), Always(21)]
    open_ = evenroll.best(Noisy(), pair, most=12, fresh=0, resets=0)
    assert not open_.decided
    assert {runner.out for runner in open_.runners} == {None}
    assert "it is open which is best" in open_.in_words()
    assert "expect a little less" in open_.in_words()
    assert open_.value == open_.runners[0].value
    near = evenroll.best(Noisy(), pair, most=100, margin=1.5, fresh=0, resets=0)
    assert near.decided
    assert near.rounds < 60
    assert "better by more than 1.5" in near.in_words()


def test_success_domains_and_vector_environments() -> None:
    found = evenroll.best(Coin(), {"seldom": Always(2), "often": Always(9)}, quantity="success", most=60)
    assert (found.winner, found.decided) == ("often", True)
    assert 0.0 <= found.value <= 1.0
    raced = sum(runner.episodes for runner in found.runners)
    assert found.fresh is not None
    assert found.episodes == raced + found.fresh.episodes
    assert str(found) == (
        f"often is the best, {raced} episodes ({2 * found.rounds} if all had run as long as it did), "
        f"and {found.fresh.episodes} fresh ones of its own"
    )
    side_by_side = gym.vector.SyncVectorEnv([Noisy] * 4)
    found = evenroll.best(side_by_side, POLICIES, most=100, resets=0)
    assert found.winner == "good"
    assert found.rounds % 4 == 0
    from evenroll.domains.catalogue import get_domain
    from evenroll.policies import epsilon_greedy

    greedy = get_domain("gridworld").policy().table.argmax(axis=1)
    found = evenroll.best("gridworld", [epsilon_greedy(greedy, 4, e) for e in (0.9, 0.05)], most=40)
    assert (found.winner, found.decided) == ("2", True)


def test_json_picture_refusals_and_interrupts(tmp_path: Any) -> None:
    found = evenroll.best(Noisy(), POLICIES, most=100, resets=0, fresh=10)
    told = json.loads(json.dumps(found.to_json(), allow_nan=False))
    again = evenroll.Race.from_json(told)
    assert again.to_json() == found.to_json()
    assert again.runners == found.runners
    found.plot(tmp_path / "race.svg")
    text = (tmp_path / "race.svg").read_text()
    assert "poor" in text or "path" in text
    assert float(found) == found.value
    with pytest.raises(SpecError, match="two policies"):
        evenroll.best(Noisy(), [Always(1)])
    with pytest.raises(SpecError, match="at least 5"):
        evenroll.best(Noisy(), POLICIES, most=3)
    with pytest.raises(SpecError, match="margin"):
        evenroll.best(Noisy(), POLICIES, margin=-1.0)

    def stop(now: Any) -> None:
        if now.episodes >= 8:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as error:
        evenroll.best(Noisy(), {"a": Always(20), "b": Always(21)}, progress=stop, resets=0)
    assert (error.value.result.rounds, error.value.result.interrupted) == (8, True)
    assert [data.episodes for data in error.value.rollouts] == [8, 8]


@pytest.mark.statistical
def test_the_winners_value_is_no_lucky_one(base_seed: int) -> None:
    """Eight policies that all earn 2, 40 races of 6 rounds: the leader's mean is 0.5 too high (1.4 standard deviations of a
    mean of 6), its fresh value is not. The mean of 40 fresh values of 40 episodes has a standard error of 0.025.
    P(false) ≤ 1e-4: 4 of them. Catches a value that comes from the race."""
    fresh, raced = [], []
    for run in range(40):
        found = evenroll.best(Noisy8(), [Always(a) for a in range(20, 28)], most=6, fresh=40, seed=base_seed + run, resets=0)
        fresh.append(found.value)
        raced.append(found.runners[0].value)
    assert abs(np.mean(fresh) - 2.0) < 4 * 0.025
    assert np.mean(raced) > 2.3


class Noisy8(Noisy):
    """Of eight actions, 20 to 27, each earns 2 on average."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        return observation, reward - int(action) // 2 / 5 + 2.0, *rest
