"""Differences until they are decided: verdicts, limits, looks, what is kept, and how often they are wrong."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import evenroll
from evenroll.errors import Interrupted, SpecError
from evenroll.evaluation.deciding import Looking, Question
from evenroll.evaluation.difference_result import Difference
from evenroll.evaluation.pairs import compared, side_of, sources_for
from evenroll.intervals.independent import Interval
from evenroll.intervals.sequential import for_rare_failures, looks
from tests.evaluation.test_pairs import Always, Coin


class Noisy(gym.Env):
    """One step. The return is a tenth of the action plus normal noise, which start and action determine. Of two actions
    such as 20 and 21 either earns 2 on average."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(100)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.start = int(self.np_random.integers(2**31))
        return self.np_random.random(1), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        luck = np.random.default_rng((self.start, int(action))).normal()
        return np.zeros(1), int(action) // 2 / 5 + luck, True, False, {}


def test_the_sign_is_found_and_fewer_pairs_are_taken_where_the_difference_is_larger() -> None:
    pairs = []
    for action in (60, 40, 30):
        found = [
            evenroll.difference(Noisy(), Always(action), Always(20), until="decided", resets=0, seed=seed)
            for seed in range(6)
        ]
        assert [one.verdict for one in found] == ["first"] * 6
        assert all(one.low > 0.0 and one.undecided is None for one in found)
        pairs.append(sum(one.pairs for one in found))
    assert pairs[0] < pairs[1] < pairs[2] < 6 * 60
    other = evenroll.difference(Noisy(), Always(20), Always(40), until="decided", resets=0)
    assert other.verdict == "second"
    assert other.in_words().startswith("The second policy is better: ")
    assert f"That took {other.pairs} pairs of at most 200." in other.in_words()
    assert other.fixed_size is not None
    assert f"would need about {other.fixed_size}" in other.in_words()


def test_margins() -> None:
    """Two units apart, noise of √2: more than 1 apart, and not more than 3."""
    near = evenroll.difference(Noisy(), Always(40), Always(20), until="decided", margin=1.0, resets=0)
    assert near.verdict == "first"
    assert near.low > 1.0
    assert "better by more than 1" in near.in_words()
    alike = evenroll.difference(Noisy(), Always(40), Always(20), until="decided", margin=3.0, resets=0)
    assert alike.verdict == "alike"
    assert -3.0 < alike.low < alike.high < 3.0
    assert alike.in_words().startswith("They differ by less than 3: ")
    assert "fixed" not in alike.in_words()


def test_what_is_not_decided_says_why() -> None:
    found = evenroll.difference(Noisy(), Always(20), Always(21), until="decided", most=20, resets=0)
    assert found.verdict == "undecided"
    assert "20 pairs" in found.undecided
    assert found.in_words().startswith("Undecided (")
    assert found.low < 0.0 < found.high
    for quantity, env, first, second in (("return", Noisy(), 20, 21), ("success", Coin(), 5, 5)):  # worth the same
        hopeless = [
            evenroll.difference(env, Always(first), Always(second), until="decided", quantity=quantity, most=90, resets=0,
                                seed=seed)
            for seed in range(3)
        ]  # fmt: skip
        assert all(30 <= one.pairs <= 90 for one in hopeless if one.verdict == "undecided")
        assert any("unlikely" in str(one.undecided) and one.pairs < 90 for one in hopeless)
    equal = evenroll.difference(Coin(), Always(10), Always(10), until="decided", most=12, resets=0)
    assert (equal.verdict, equal.low) == ("undecided", None)
    assert "cannot be told" in equal.in_words()
    assert "equal" in str(equal.why)


def test_success_rates() -> None:
    found = evenroll.difference(Coin(), Always(9), Always(2), until="decided", quantity="success", most=60)
    assert (found.verdict, found.quantity) == ("first", "success")
    assert 0.0 <= found.low < 0.7 < found.high <= 1.0
    assert found.pairs < 40
    assert "success in " in found.in_words()
    lost = evenroll.difference(Coin(), Always(2), Always(9), until="decided", quantity="success", most=60)
    assert lost.verdict == "second"
    assert lost.high <= 0.0
    margin = evenroll.difference(Coin(), Always(9), Always(2), until="decided", quantity="success", most=200, margin=0.2)
    assert margin.verdict == "first"
    assert margin.low > 0.2
    never = evenroll.difference(Coin(), Always(10), Always(10), until="decided", quantity="success", most=40)
    assert never.verdict == "undecided"
    assert never.pairs < 40  # every pair to come could not change it
    assert never.low < 0.0 < never.high


@pytest.mark.parametrize("vector", ["gymnasium", "stable-baselines3"])
def test_vector_environments_are_looked_at_in_rounds(vector: str) -> None:
    env: Any = gym.vector.SyncVectorEnv([Noisy] * 4)
    if vector != "gymnasium":
        env = VecNormalize(DummyVecEnv([Noisy] * 4), training=False, norm_reward=False)
    found = evenroll.difference(env, Always(40), Always(20), until="decided", resets=0)
    assert found.verdict == "first"
    assert found.pairs % 4 == 0


def test_an_interrupted_run_goes_on_as_if_it_had_not_been() -> None:
    """What both had is looked at no second time, and the verdict is that of a run in one go."""
    env, one, other = Noisy(), Always(30), Always(20)
    whole = evenroll.difference(env, one, other, until="decided", resets=0)
    assert whole.pairs > 7

    def stop(now: Any) -> None:
        if now.episodes >= 7:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as error:
        evenroll.difference(env, one, other, until="decided", resets=0, progress=stop)
    left = error.value.result
    assert (left.interrupted, left.verdict, left.pairs) == (True, "undecided", 7)
    again = evenroll.difference(env, one, other, until="decided", resets=0, initial=error.value.rollouts)
    assert (again.verdict, again.pairs, again.value) == (whole.verdict, whole.pairs, whole.value)


def test_refusals_and_json() -> None:
    env = Noisy()
    for wrong, words in (
        ({"until": "tired"}, "'decided'"),
        ({"until": "decided", "episodes": 30}, "most="),
        ({"margin": 1.0}, "until='decided'"),
        ({"until": "decided", "most": 4}, "at least 5"),
        ({"until": "decided", "margin": -1.0}, "margin"),
        ({"until": "decided", "margin": float("nan")}, "margin"),
        ({"until": "decided", "quantity": "luck"}, "unknown quantity"),
    ):
        with pytest.raises(SpecError, match=words):
            evenroll.difference(env, Always(1), Always(2), **wrong)
    found = evenroll.difference(env, Always(60), Always(20), until="decided", resets=0)
    told = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (told["verdict"], told["most"], told["quantity"]) == ("first", 200, "return")
    assert Difference.from_json(told).in_words() == found.in_words()


def test_what_an_interval_decides() -> None:
    plain, wide, gate = Question(), Question(2.0), Question(2.0, gate=True)
    assert [plain.verdict(*ends) for ends in ((1, 3), (-3, -1), (-1, 1), (0, 1))] == ["first", "second", None, None]
    assert [wide.verdict(*ends) for ends in ((3, 4), (-4, -3), (-1, 1), (1, 3))] == ["first", "second", "alike", None]
    assert [gate.verdict(*ends) for ends in ((-1, 9), (-9, -3), (-3, 9))] == ["not worse", "worse", None]


@pytest.mark.statistical
def test_equal_policies_are_seldom_told_apart(base_seed: int) -> None:
    """100 runs of two actions that earn the same, up to 30 pairs. The promise is 5 %: more than 17 wrong ones of 100 have a
    probability of 3e-6. P(false) ≤ 1e-5. Catches ordinary 95 % intervals at every look (46 of 200 runs
    were wrong then)."""
    env, wrong = Noisy(), 0
    settings: dict[str, Any] = {"gamma": None, "horizon": None, "deterministic": False, "resets": 0}
    for run in range(100):
        sources = sources_for(env, [Always(20), Always(21)], "os", [None, None], seed=base_seed + run, **settings)
        wrong += Looking(sources, Question(), 30, 0.95, "return").run([0, 0], lambda n, found: None).verdict != "undecided"
    assert wrong <= 17


def test_the_level_of_an_interrupted_look_is_that_of_the_last() -> None:
    settings: dict[str, Any] = {"gamma": None, "seed": 0, "horizon": None, "deterministic": False, "resets": 0}
    looking = Looking(sources_for("bandit", [None, None], "os", [None, None], **settings), Question(), 60, 0.95, "return")
    assert looking.level_at(3) == looking.levels[5]
    assert looking.level_at(23) == looking.levels[max(n for n in looks(60) if n <= 23)]


def test_a_look_allows_for_skewness() -> None:
    settings: dict[str, Any] = {"gamma": None, "seed": 4, "horizon": None, "deterministic": False, "resets": 0}
    sources = sources_for(Noisy(), [Always(20), Always(21)], "os", [None, None], **settings)
    for source in sources:
        list(source.collect(12, None, at_once=True))
    looking = Looking(sources, Question(), 60, 0.95, "return")
    plain = compared(*(side_of(source, "return", 12) for source in sources), 1.0 - looking.levels[12])
    assert isinstance(plain.interval, Interval)
    assert plain.interval.skewness not in (None, 0.0)
    found, wider = looking.look(12).found.interval, for_rare_failures(plain.interval, plain.value, 12)
    assert (found.low, found.high) == (wider.low, wider.high) != (plain.interval.low, plain.interval.high)
