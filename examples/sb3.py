"""What are two Stable-Baselines3 policies worth? One call each, instead of a loop of rollouts.

python examples/sb3.py                                  # pip install stable-baselines3
python examples/sb3.py InvertedPendulum-v5 Hopper-v5    # pip install "gymnasium[mujoco]"
"""

import sys

import gymnasium as gym
from stable_baselines3 import PPO

import evenroll


def main(tasks: list[str], training_steps: int = 5_000, episodes: int = 100) -> dict[str, evenroll.Evaluation]:
    results = {}
    for task in tasks:
        model = PPO("MlpPolicy", task, n_steps=512, seed=0, device="cpu").learn(training_steps)
        results[task] = result = evenroll.evaluate(gym.make(task), model, episodes=episodes, gamma=0.99)
        print(f"{task}: {result}")
        print(f"  {result.in_words()}")
        print(f"  undiscounted return {result.quantities['return']}, length {result.quantities['length']}")
    return results


if __name__ == "__main__":
    main(sys.argv[1:] or ["CartPole-v1", "Pendulum-v1"])
