"""What stands around an environment is told in the result, wherever the environment runs."""

from __future__ import annotations

import functools
import json
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing, ClipReward, NormalizeObservation, NormalizeReward, TransformReward
from stable_baselines3.common.atari_wrappers import ClipRewardEnv, EpisodicLifeEnv
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecNormalize

import evenroll
from evenroll.adapters.surroundings import cut_after, environment_name, layers, time_limit, warnings_of
from evenroll.policies import MLP

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
POLE = functools.partial(gym.make, "CartPole-v1")
LEARNS, SCALES, CLIPS, CHANGES, LIVES = "still learns", "scales the rewards", "clips the rewards", "changes the", "of lives"


class Tripled(gym.RewardWrapper):
    def reward(self, reward: Any) -> Any:
        return 3.0 * reward


def frozen(wrapper: Any) -> Any:
    wrapper.update_running_mean = False
    return wrapper


def halved() -> gym.Env[Any, Any]:
    return TransformReward(POLE(), lambda reward: 0.5 * reward)


def normalised() -> gym.Env[Any, Any]:
    return NormalizeReward(NormalizeObservation(POLE()))


def two_lives() -> gym.Env[Any, Any]:
    return ClipRewardEnv(EpisodicLifeEnv(Monitor(Games())))


class Games(gym.Env[Any, Any]):
    """A game of two lives. A life ends after four steps, each of which earns five points."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (4,), np.float32), gym.spaces.Discrete(2)

    class Screen:
        left = 2

        def lives(self) -> int:
            return self.left

    def __init__(self) -> None:
        self.ale = self.Screen()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t, self.ale.left = 0, 2
        return self.np_random.random(4).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        self.ale.left = 2 - self.t // 4
        return self.np_random.random(4).astype(np.float32), 5.0, self.ale.left == 0, False, {}


def sync(make: Any) -> Any:
    return gym.vector.SyncVectorEnv([make] * 2)


def across(make: Any) -> Any:
    return gym.vector.AsyncVectorEnv([make] * 2)


def processes(make: Any) -> Any:
    return SubprocVecEnv([make] * 2, start_method="fork")


CASES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "plain": (POLE, ()),
    "observations": (lambda: NormalizeObservation(POLE()), (LEARNS,)),
    "observations, frozen": (lambda: frozen(NormalizeObservation(POLE())), ()),
    "rewards": (lambda: NormalizeReward(POLE()), (LEARNS, SCALES)),
    "rewards, frozen": (lambda: frozen(NormalizeReward(POLE())), (SCALES,)),
    "inside others": (lambda: gym.wrappers.FlattenObservation(normalised()), (LEARNS, SCALES, LEARNS)),
    "clipped": (lambda: ClipReward(POLE(), -1, 1), (CLIPS,)),
    "halved": (halved, (CHANGES,)),
    "somebody's own": (lambda: Tripled(POLE()), (CHANGES,)),
    "lives": (two_lives, (CLIPS, LIVES)),
    "lanes": (lambda: sync(normalised), (LEARNS, SCALES, LEARNS)),
    "around lanes": (lambda: gym.wrappers.vector.NormalizeObservation(sync(POLE)), (LEARNS,)),
    "rewards of lanes": (lambda: gym.wrappers.vector.NormalizeReward(sync(POLE)), (LEARNS, SCALES)),
    "clipped lanes": (lambda: gym.wrappers.vector.ClipReward(sync(POLE), -1, 1), (CLIPS,)),
    "other processes": (lambda: across(normalised), (LEARNS, SCALES, LEARNS)),
    "other processes, plain": (lambda: across(POLE), ()),
    "lives elsewhere": (lambda: processes(two_lives), (CLIPS, LIVES)),
    "halved elsewhere": (lambda: processes(halved), (CHANGES,)),
    "vecnormalize": (lambda: VecFrameStack(VecNormalize(DummyVecEnv([POLE])), 2), (LEARNS, SCALES)),
    "vecnormalize, set": (lambda: VecNormalize(DummyVecEnv([POLE]), training=False, norm_reward=False), ()),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_around_is_told(name: str) -> None:
    make, expected = CASES[name]
    env = make()
    found = warnings_of(env)
    env.close()
    assert len(found) == len(expected)
    for text, words in zip(found, expected, strict=True):
        assert words in text


def test_a_game_of_several_lives_by_gymnasiums_wrapper() -> None:
    """AtariPreprocessing needs a game to be made; what is looked at is its setting."""
    for setting in (True, False):
        wrapper = AtariPreprocessing.__new__(AtariPreprocessing)
        gym.Wrapper.__init__(wrapper, Games())
        wrapper.terminal_on_life_loss = setting
        assert [LIVES in text for text in warnings_of(wrapper)] == [True] * setting


def policy() -> MLP:
    return MLP([], np.ones((2, 4)), np.zeros(2))


def test_the_result_says_so_in_words_and_in_json() -> None:
    """Two lives of four steps: what is counted are lives of 4 × sign(5), not games of 40 points."""
    with pytest.warns(UserWarning, match=LIVES):
        result = evenroll.evaluate(two_lives(), policy(), episodes=20)
    assert (result.quantities["length"].value, result.value) == (pytest.approx(4.0, abs=0.6), pytest.approx(4.0, abs=0.6))
    assert len(result.warnings) == 2
    assert all(f"Warning: {text}." in result.in_words() for text in result.warnings)
    assert json.loads(json.dumps(result.to_json()))["warnings"] == list(result.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evenroll.evaluate(POLE(), policy(), episodes=5).warnings == ()


def test_the_name_is_that_of_the_environment_inside() -> None:
    makes = {
        "CartPole-v1": [
            POLE, lambda: Tripled(POLE()), lambda: VecNormalize(DummyVecEnv([POLE])), lambda: sync(POLE),
            lambda: across(POLE),
            lambda: VecNormalize(processes(POLE)), lambda: gym.make_vec("CartPole-v1", 2),
        ],
        "Games": [Games, lambda: Monitor(Games()), lambda: DummyVecEnv([Games]), lambda: sync(Games)],
    }  # fmt: skip
    for name, all_of_them in makes.items():
        for make in all_of_them:
            env = make()
            assert environment_name(env) == name
            env.close()
    normal = VecNormalize(DummyVecEnv([POLE]), training=False, norm_reward=False)
    assert evenroll.evaluate(normal, policy(), episodes=3).domain == "CartPole-v1"


@pytest.mark.parametrize("wrap", [lambda make: make(), sync, across, processes, lambda make: DummyVecEnv([make])])
def test_a_time_limit_is_found(wrap: Any) -> None:
    for make, limit in ((POLE, 500), (lambda: gym.wrappers.TimeLimit(Games(), 7), 7), (Games, None)):
        env = wrap(make)
        assert time_limit(env) == limit
        env.close()


def test_a_cut_that_is_certain_is_that_of_a_wrapper() -> None:
    """What the registration says no longer holds where somebody has taken the wrapper off."""
    assert cut_after(POLE()) == 500
    assert cut_after(POLE().unwrapped) is None
    assert cut_after(gym.wrappers.TimeLimit(Tripled(POLE()), 70)) == 70
    assert cut_after(gym.wrappers.TimeLimit(POLE(), 700)) == 500
    assert cut_after(Games()) is None


def test_walking_ends_where_wrappers_hold_each_other() -> None:
    env = POLE()
    env.unwrapped.env = env  # type: ignore[attr-defined]
    assert len(list(layers(env))) == 4
