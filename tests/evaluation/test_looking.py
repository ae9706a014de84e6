"""A look at data: what overflows is refused by name, and never shown as a number."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.adapters.start_seeds import start_seed
from evenroll.errors import NoEstimate
from evenroll.evaluation.looking import left_out


class Rich(gym.Env):
    """Two steps, huge rewards."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.zeros(1, np.float32), self.scale * (1.0 + action), self.t == 2, False, {}


def either(observation: Any) -> list[float]:
    return [0.5, 0.5]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sampler", ["os", "auto"])
def test_squares_that_overflow_leave_no_interval(sampler: str) -> None:
    result = evenroll.evaluate(Rich(1e200), either, sampler=sampler, episodes=40)
    assert 2e200 <= result.value <= 4e200
    assert (result.low, result.high) == (None, None)
    assert "overflow" in result.why
    assert result.on_policy_episodes is None


@pytest.mark.filterwarnings("error")
def test_returns_that_overflow_are_refused() -> None:
    with pytest.raises(NoEstimate, match="overflow"):
        evenroll.evaluate(Rich(8e307), either, sampler="os", episodes=40)


@pytest.mark.parametrize("scale", [1e-145, 1e-200, 1e-310])
@pytest.mark.parametrize("sampler", ["os", "auto"])
def test_squares_that_vanish_leave_no_interval(sampler: str, scale: float) -> None:
    """Returns that differ, and an interval of no width: "3e-200 ± 0" was said of them."""
    result = evenroll.evaluate(Rich(scale), either, sampler=sampler, episodes=40)
    assert 2.0 * scale <= result.value <= 4.0 * scale * (1.0 + 1e-9)
    assert (result.low, result.high) == (None, None)
    assert "scale the rewards" in result.why
    small = evenroll.evaluate(Rich(1e-130), either, sampler=sampler, episodes=40)
    assert 0.0 < small.low < small.high


SPACES = {"observation_space": Rich.observation_space, "action_space": Rich.action_space}


def test_lanes_that_are_looked_at_in_the_midst_are_told() -> None:
    """Each step is the last with probability 0.1. With one lane nothing is lost but precision."""
    rng = np.random.default_rng(0)
    for lanes in (8, 1):
        collector = evenroll.Collector(either, "os", lanes=lanes, **SPACES)
        while collector.episodes < 12 or not collector.open_episodes:
            collector.act(np.zeros((lanes, 1), np.float32))
            collector.observe(np.ones(lanes), rng.random(lanes) < 0.1)
        found = collector.result()
        told = f"{collector.open_episodes} episodes that had not ended are left out"
        assert (told in found.in_words()) is (lanes == 8)
        assert len(found.warnings) == (lanes == 8)


@pytest.mark.statistical
@pytest.mark.parametrize("lanes", [1, 8])
def test_what_open_episodes_take_from_the_mean(lanes: int, base_seed: int) -> None:
    """Geometric episodes with mean 10 in lanes that are looked at after 120 steps: 2,000 runs of the bias that is told and
    the one that is there, 0.73 with 8 lanes and none with one. P(false) ≤ 1e-4: 4 standard errors of their sum, 0.1 (one
    lane: 0.3), and 0.2 for the second order. Catches a bias that is not told, or that has the wrong sign."""
    rng, gaps, steps = np.random.default_rng(base_seed), [], 120
    for _ in range(2000):
        every = rng.geometric(0.1, (lanes, steps))
        ended = every[np.cumsum(every, axis=1) <= steps]
        data = SimpleNamespace(returns=ended.astype(float), lengths=ended, episodes=len(ended))
        told = re.search(r"too (low|high) by about ([0-9.e-]+)", " ".join(left_out(data, lanes)))  # type: ignore[arg-type]
        gaps.append(ended.mean() - 10.0 + (0.0 if told is None else float(told[2])))
    assert abs(np.mean(gaps)) < 4.0 * np.std(gaps) / 2000**0.5 + 0.2


def test_the_share_of_the_actions_is_told_where_there_is_enough_to_tell() -> None:
    """With fewer than 8 episodes nothing is said; where the actions settle everything, all of it is found."""
    few, many = (evenroll.evaluate(Rich(1.0), either, episodes=n) for n in (7, 40))
    assert few.action_share is None
    assert many.action_share == pytest.approx(1.0, abs=0.05)


class Brief(gym.Env):
    """Each step pays 1 and is the last with probability 0.02; at most `most` steps, which only the environment knows of."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, most: int = 10**9, chance: float = 0.02, shift: float = 0.0) -> None:
        self.most, self.chance, self.shift = most, chance, shift

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        over = self.np_random.random() < self.chance
        reward = 1.0 if self.shift == 0.0 else self.shift + 1e-3 * self.np_random.standard_normal()
        return np.zeros(1, np.float32), reward, over, self.t >= self.most, {}


def always(observation: Any) -> int:
    return 1


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_no_length_is_beyond_the_time_limit(gamma: float) -> None:
    """Most of 14 episodes are cut after 20 steps, and a few are shorter: mean + t · s/√n is more than 20."""
    settings: dict[str, Any] = {"episodes": 14, "gamma": gamma, "seed": 4}
    free = evenroll.evaluate(Brief(20), always, **settings).quantities["length"]
    limited = evenroll.evaluate(gym.wrappers.TimeLimit(Brief(), 20), always, **settings).quantities["length"]
    ours = evenroll.evaluate(Brief(), always, horizon=20, **settings).quantities["length"]
    assert free.high > 20.0
    assert limited == ours
    assert (limited.value, limited.low, limited.high) == (free.value, free.low, 20.0)


def test_equal_lengths_are_between_one_and_the_time_limit() -> None:
    found = evenroll.evaluate(gym.wrappers.TimeLimit(Brief(chance=0.0), 20), always, episodes=30)
    rare = 1.0 - 0.025 ** (1 / 30)  # Clopper and Pearson's bound for what was never seen in 30 episodes
    length = found.quantities["length"]
    assert (length.value, length.high) == (20.0, 20.0)
    assert length.low == pytest.approx(20.0 - 19.0 * rare)


def test_the_number_that_is_printed_lies_in_its_interval() -> None:
    """Returns of 12,345.678 ± 0.001: five digits would be 12,346."""
    found = evenroll.evaluate(Brief(most=1, shift=12345.678), always, episodes=10)
    assert found.half_width < 0.002
    for text in (str(found), found.in_words(), found.in_words().partition(":")[2], str(found.mean)):
        number = float(re.search(r"\d+\.\d+", text)[0])  # type: ignore[index]
        assert abs(number - found.value) <= found.half_width * 1.1


def test_where_the_value_is_known_so_is_the_length() -> None:
    """gridworld leaves nothing to chance, so that 5,000 episodes tell value and length to rounding error. The episodes' mean
    length is off by what their actions owe; the number that is shown is the one that its interval is about."""
    found = [evenroll.evaluate("gridworld", episodes=5000, estimator="mc", seed=seed) for seed in (0, 1)]
    lengths = [one.quantities["length"] for one in found]
    assert all(one.exact for one in found)
    for one in lengths:
        assert one.low is not None
        assert one.high is not None
        assert one.low <= one.value <= one.high
    assert lengths[0].value == pytest.approx(lengths[1].value, abs=1e-6)
    assert found[0].steps != found[1].steps  # the mean lengths differ


def test_numbers_of_a_report_by_hand() -> None:
    """Every count and every level of one evaluation, recomputed from what the environment did."""
    from scipy import stats

    env = Brief(most=20, chance=0.05)
    lengths = []
    for episode in range(25):
        env.reset(seed=start_seed(9, episode))
        over = False
        while not over:
            _, _, ended, cut, _ = env.step(1)
            over = ended or cut
        lengths.append((env.t, bool(ended)))
    T = np.array([t for t, _ in lengths], dtype=float)
    found = evenroll.evaluate(Brief(most=20, chance=0.05), always, episodes=25, seed=9, confidence=0.9, resets=0)
    half = stats.t.ppf(0.95, 24) * T.std(ddof=1) / 5.0
    assert (found.episodes, found.steps, found.seed, found.confidence) == (25, int(T.sum()), 9, 0.9)
    assert (found.terminated, found.truncated, found.unfinished) == (
        sum(e for _, e in lengths),
        25 - sum(e for _, e in lengths),
        0,
    )
    assert found.mean.value == pytest.approx(T.mean())
    assert (found.mean.low, found.mean.high) == pytest.approx((T.mean() - half, T.mean() + half))
    z = stats.norm.ppf(0.95)
    shorter = min(found.value - found.low, found.high - found.value)  # the other end lies farther, for skewness
    assert found.on_policy_episodes == pytest.approx((z * T.std(ddof=1) / shorter) ** 2)


class SaysOnlySuccess(Rich):
    """Says so when it succeeds, and nothing when it does not."""

    def step(self, action: Any) -> Any:
        observation, reward, over, cut, _ = super().step(action)
        return observation, reward, over, cut, {"is_success": True} if over and action == 1 else {}


def test_successes_that_only_some_episodes_report_make_no_rate() -> None:
    """They would make a rate of 1, whatever the policy does. The result says what is missing, in words, from a loop of one's
    own as well; with a flag in every episode, or in none, there is nothing to say."""
    found = evenroll.evaluate(SaysOnlySuccess(1.0), either, episodes=30)
    assert "success" not in found.quantities
    warned = next(text for text in found.warnings if "success" in text)
    told = int(re.search(r"at the end of (\d+) of 30 episodes only", warned)[1])  # type: ignore[index]
    assert 0 < told < 30
    assert warned in found.in_words()
    assert evenroll.evaluate(Rich(1.0), either, episodes=30).warnings == ()
    collector = evenroll.Collector(either, observation_space=Rich.observation_space, action_space=Rich.action_space)
    for said in ({"success": True}, {}, {"success": False}):
        collector.act(np.zeros(1))
        collector.observe(1.0, True, False, np.zeros(1), said)
    assert "at the end of 2 of 3 episodes only" in collector.result().warnings[0]
