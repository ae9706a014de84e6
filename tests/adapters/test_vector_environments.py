"""Vector environments: every autoreset mode, and the wrappers of Stable-Baselines3."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize

import evenroll
from evenroll.adapters.vector_environments import as_lanes
from evenroll.collection.environments import collect
from evenroll.errors import SpecError
from evenroll.evaluation.collector import Collector
from tests.torch_helpers import Head, categorical


class Count(gym.Env):
    """Episodes of 2, then 3, then 4 … steps: an episode's return, its length, says which it was."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (2,), np.float32), gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.episode, self.over = -1, True

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t, self.over = self.episode + 1, 0, False
        return np.array([0.0, self.t / 10], np.float32), {}

    def step(self, action):
        assert not self.over, "a step after the end"
        self.t += 1
        self.over = self.t >= 2 + self.episode
        return np.array([action, self.t / 10], np.float32), 1.0, self.over and self.episode % 2 == 0, self.over, {
            "is_success": self.over and self.episode > 0
        }  # fmt: skip


class OwnVector(gym.vector.VectorEnv):
    """A vector environment that is not built from others, in whatever mode it says."""

    def __init__(self, n: int) -> None:
        self.num_envs, self.envs = n, [Count() for _ in range(n)]
        self.single_observation_space, self.single_action_space = Count.observation_space, Count.action_space
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, n)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, n)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def reset(self, *, seed=None, options=None):
        return np.stack([env.reset()[0] for env in self.envs]), {}

    def step(self, actions):
        rows = [env.step(a) for env, a in zip(self.envs, actions, strict=True)]
        observations = [env.reset()[0] if row[2] or row[3] else row[0] for env, row in zip(self.envs, rows, strict=True)]
        done = np.array([row[2] or row[3] for row in rows])
        infos = {"final_info": {"is_success": np.array([row[4]["is_success"] for row in rows]), "_is_success": done}}
        rewards, ended, cut = (np.array([row[i] for row in rows]) for i in (1, 2, 3))
        return np.stack(observations), rewards, ended, cut & ~ended, infos


VECTORS = {
    **{mode.value: (lambda mode=mode: gym.vector.SyncVectorEnv([Count] * 3, autoreset_mode=mode)) for mode in AutoresetMode},
    "own": lambda: OwnVector(3),
    "async": lambda: gym.vector.AsyncVectorEnv([Count] * 3),
}


@pytest.mark.parametrize("name", VECTORS)
def test_each_sub_environment_gives_its_share(name: str) -> None:
    """Ten episodes from three lanes: 3, 3 and 4 of them, the first of each lane, whatever their length."""
    env = VECTORS[name]()
    torch.manual_seed(0)
    collector = Collector(Head(2, 2, categorical), lanes=3, observation_space=Count.observation_space,
                          action_space=Count.action_space)  # fmt: skip
    for _ in collect(collector, env, episodes=10):
        pass
    env.close()
    data = collector.rollouts()
    assert sorted(data.lengths) == sorted([2, 3, 4] * 3 + [5])
    np.testing.assert_array_equal(data.returns, data.lengths)
    np.testing.assert_array_equal(data.terminated, data.lengths % 2 == 0)
    np.testing.assert_array_equal(data.success, data.lengths > 2)
    starts = data.ends - data.lengths
    np.testing.assert_array_equal(data.observations[starts], 0.0)
    t = np.arange(data.steps) - np.repeat(starts, data.lengths)
    np.testing.assert_allclose(data.observations[:, 1], t / 10, atol=1e-6)
    inner = np.setdiff1d(np.arange(1, data.steps), starts)
    np.testing.assert_array_equal(data.observations[inner, 0], data.actions[inner - 1, 0])
    if name != "own":  # which does not tell what its episodes ended with
        last = np.array([collector.last_observations()[i] for i in range(10)])
        np.testing.assert_allclose(last, np.stack([data.actions[data.ends - 1, 0], data.lengths / 10], axis=1), atol=1e-6)
    assert collector.result().unfinished == 0


def test_wrappers_of_vector_environments_are_respected(ppo: PPO) -> None:
    """Frame stacking: the policy sees what the wrapper gives. VecNormalize: likewise, and its settings are questioned."""
    stacked = VecFrameStack(make_vec_env("CartPole-v1", n_envs=2), 3)
    model = PPO("MlpPolicy", stacked, n_steps=32, device="cpu", seed=0)
    assert evenroll.evaluate(stacked, model, episodes=6).episodes == 6
    normal = VecNormalize(make_vec_env("CartPole-v1", n_envs=2), norm_reward=False)
    with pytest.warns(UserWarning, match="still learns"):
        evenroll.evaluate(normal, ppo, episodes=3)
    normal.training, mean = False, normal.obs_rms.mean.copy()
    result = evenroll.evaluate(normal, ppo, episodes=7, gamma=0.99)
    assert result.episodes == 7
    assert (result.truncated, result.unfinished) == (0, 0)
    np.testing.assert_array_equal(normal.obs_rms.mean, mean)


def test_what_only_looks_like_an_environment_is_told() -> None:
    """A thing with some of the attributes is no vector environment, and neither is the class of one."""

    class Half:
        num_envs, observation_space = 2, gym.spaces.Discrete(2)

    for thing in (Half(), 3, "x"):
        with pytest.raises(SpecError, match="is no environment"):
            as_lanes(thing)
    assert as_lanes(gym.make("CartPole-v1")) is None
