"""A vector environment of your own, a thousand walkers in one array.

All walkers share one balance, and each contributes a fixed share of the episodes.

python examples/own_vector_env.py
"""

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

import evenroll


class Walkers(gym.vector.VectorEnv):
    """Each walks left or right until it leaves ±4 or 50 steps have passed, and earns its position."""

    def __init__(self, n: int) -> None:
        self.num_envs = n
        self.single_observation_space = gym.spaces.Box(-5, 5, (1,), np.float64)
        self.single_action_space = gym.spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # a walker that is done starts anew in the same step

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.x, self.t = self.rng.uniform(-1, 1, self.num_envs), np.zeros(self.num_envs, int)
        return self.x[:, None].copy(), {}

    def step(self, actions):
        self.x += np.where(actions == 1, 0.5, -0.5)
        self.t += 1
        rewards, terminated, truncated = self.x.copy(), np.abs(self.x) > 4, self.t >= 50
        last, done = self.x[:, None].copy(), terminated | truncated
        self.x[done], self.t[done] = self.rng.uniform(-1, 1, done.sum()), 0
        return self.x[:, None].copy(), rewards, terminated, truncated & ~terminated, {"final_obs": last}


def policy(observation: np.ndarray) -> list[float]:
    """Drifts to the right, but not too far."""
    right = 1 / (1 + np.exp(0.5 * observation[0] - 0.5))
    return [1 - right, right]


def main(walkers: int = 16, episodes: int = 200) -> evenroll.Evaluation:
    result = evenroll.evaluate(Walkers(walkers), policy, episodes=episodes, gamma=0.99)
    print(result)
    print(result.in_words())
    return result


if __name__ == "__main__":
    main()
