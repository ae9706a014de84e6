"""Further resets: how many, that they are other starts than the episodes', and that what fails costs no data."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.collection.resets import Resets
from evenroll.errors import SpecError
from evenroll.estimators.start_part import starts_of
from evenroll.evaluation.sources import source_of


class Begun(gym.Env):
    """Starts anywhere between 0 and 1, ends after five steps, pays its start, and remembers the seeds that it was given."""

    observation_space = gym.spaces.Box(-1.0, 2.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, refuse: bool = False) -> None:
        self.refuse, self.seeds, self.t, self.steps = refuse, list[Any](), 5, 0
        self.begun: list[float] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        if self.refuse and self.t < 5:
            raise RuntimeError("tried to reset an environment before done")
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.t, self.x = 0, self.np_random.random(1)
        self.begun.append(float(self.x[0]))
        return self.x, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.t, self.steps = self.t + 1, self.steps + 1
        return self.x, float(self.x[0]), self.t == 5, False, {}


def either(observation: Any) -> list[float]:
    return [0.5, 0.5]


def test_how_many_there_are_by_default() -> None:
    rule = Resets()
    assert rule.wanted(steps=2000, seconds=1.0, one=1e-5) == 666
    assert rule.wanted(steps=10**9, seconds=1e9, one=1e-5) == 1 << 14
    assert rule.wanted(steps=2000, seconds=10.0, one=2e-3) == 256  # 500 fit into a tenth of the time
    assert rule.wanted(steps=2000, seconds=0.01, one=2e-3) == 64  # 125 fit into a moment
    assert rule.why is None
    assert rule.wanted(steps=10**6, seconds=3600.0, one=1.0) == 0  # somebody carries the robot back
    assert "resets=" in str(rule.why)
    assert Resets(7).wanted(steps=10**6, seconds=3600.0, one=1.0) == 7


def test_they_take_no_step_and_have_seeds_of_their_own() -> None:
    env = Begun()
    result = evenroll.evaluate(env, either, episodes=20, resets=300, seed=3)
    assert (result.resets, env.steps, result.steps) == (300, 100, 100)
    assert len(env.begun) == len(set(env.begun)) == 320
    given = [seed for seed in env.seeds if seed is not None]
    assert len(given) == len(set(given)) == 22  # the episodes', the first of eight trials, and the first of all others
    again = Begun()
    evenroll.evaluate(again, either, episodes=20, resets=300, seed=3)
    assert again.begun == env.begun
    assert evenroll.evaluate(Begun(), either, episodes=20, resets=0).to_json()["noise"]["starts"] is None
    assert evenroll.evaluate(Begun(), either, episodes=20, resets=0).resets == 0


def test_the_start_is_known_once_resets_show_it() -> None:
    """Five times the mean of the start, 2.5: with 2,000 resets little else is left."""
    plain = evenroll.evaluate(Begun(), either, episodes=20, resets=0)
    known = evenroll.evaluate(Begun(), either, episodes=20, resets=2000)
    assert known.half_width < plain.half_width / 3
    assert known.low < 2.5 < known.high
    assert known.mean.value == plain.mean.value
    assert known.noise.starts > 0.95
    assert "luck of the start" in known.in_words()


def test_looking_again_does_not_reset_to_the_same_starts() -> None:
    env = Begun()
    result = evenroll.evaluate(env, either, half_width=0.05, episodes=3000, resets=None)
    assert result.episodes > 20
    assert len(env.begun) == len(set(env.begun))


class SlowToSeed(Begun):
    """Only a reset with a seed takes its time."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            time.sleep(0.004)
        return super().reset(seed=seed, options=options)


def test_what_counts_is_how_long_a_reset_takes_without_a_seed() -> None:
    """With seeds only 0.25 s / 0.004 s = 62 resets would have fitted, so 32 would have been made."""
    assert evenroll.evaluate(SlowToSeed(), either, episodes=200).resets == 333


@pytest.mark.parametrize("make", [gym.vector.SyncVectorEnv, None])
def test_vector_environments(make: Any) -> None:
    if make is None:
        sb3 = pytest.importorskip("stable_baselines3.common.vec_env")
        make = sb3.DummyVecEnv
    known = evenroll.evaluate(make([Begun] * 3), either, episodes=21, resets=1500)
    assert known.resets == 1500
    assert known.noise.starts > 0.95
    assert known.low < 2.5 < known.high


def test_an_environment_that_refuses_keeps_its_episodes() -> None:
    result = evenroll.evaluate(Begun(refuse=True), either, episodes=10, resets=50)
    assert (result.episodes, result.resets) == (10, 1)
    assert "before done" in result.no_resets
    assert "before done" in result.in_words()


class Broken(Begun):
    """From the fifteenth reset on it begins nowhere."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        seen, info = super().reset(seed=seed, options=options)
        return (seen if len(self.seeds) < 15 else seen * np.nan), info


def test_a_reset_that_begins_nowhere_is_left_out() -> None:
    result = evenroll.evaluate(Broken(), either, episodes=10, resets=50)
    assert (result.episodes, result.resets) == (10, 4)
    assert "further reset gave an observation that is not finite" in result.in_words()
    assert result.low < result.value < result.high


def test_domains_are_reset_too() -> None:
    known = evenroll.evaluate("cartpole", episodes=50, resets=400)
    assert known.resets == 400
    assert known.noise.starts is not None
    again = evenroll.evaluate("cartpole", episodes=50, resets=400)
    assert (again.value, again.low) == (known.value, known.low)


def test_no_whole_number_is_refused() -> None:
    for wrong in (-1, 2.5, "many"):
        with pytest.raises(SpecError, match="resets"):
            evenroll.evaluate("cartpole", episodes=5, resets=wrong)


def test_a_difference_takes_the_starts_out() -> None:
    """Both policies earn five times the start: the difference is 0 from every start, and equal differences have no interval.
    Against a policy of another task the start counts, and is taken out."""

    class Twice(Begun):
        def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            x, reward, over, cut, info = super().step(action)
            return x, reward * (1 + action), over, cut, info

    def first(observation: Any) -> int:
        return 0

    def second(observation: Any) -> int:
        return 1

    found = evenroll.difference(Twice(), second, first, episodes=20, resets=2000)
    plain = evenroll.difference(Twice(), second, first, episodes=20, resets=0)
    assert found.half_width < plain.half_width / 3
    assert found.low < 2.5 < found.high


def test_the_models_own_critic_is_asked() -> None:
    """Eight episodes carry two features of the start, fewer than Pendulum's observation: only the critic's value fits."""
    sb3 = pytest.importorskip("stable_baselines3")
    env = gym.make("Pendulum-v1")
    model = sb3.PPO("MlpPolicy", env, n_steps=64, seed=0, device="cpu")
    source = source_of(env, model, "auto", gamma=1.0, seed=0, horizon=20, initial=None, deterministic=False, resets=300)
    list(source.collect(8, None, at_once=True))
    data = source.rollouts()
    import torch

    with torch.no_grad():
        theirs = [model.policy.predict_values(torch.as_tensor(x).float()).numpy()[:, 0]
                  for x in (data.start_observations(), data.resets)]  # fmt: skip
    assert data.critic is not None
    for ours, values in zip(data.critic, theirs, strict=True):
        np.testing.assert_allclose(ours, values, atol=1e-5)
    assert len(data.prefix(int(data.ends[3])).critic[0]) == 4
    assert starts_of(data).sets[0][0].shape[1] == 1
    source.close()
