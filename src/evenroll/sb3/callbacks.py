"""A Stable-Baselines3 callback that evaluates during training, balanced, with an interval."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from evenroll.evaluation.evaluate import evaluate
from evenroll.evaluation.result import Evaluation


class EvalCallback(BaseCallback):
    """Evaluate the model every `every` training steps, and log its value and half-width.

    The model is evaluated as it acts in training, not by its likeliest actions.

    env      an environment for evaluation only, Gymnasium's or a VecEnv
    results  all evaluations so far, each with the number of training steps before it
    """

    def __init__(self, env: Any, every: int = 10_000, episodes: int = 50, gamma: float = 1.0, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.env, self.every, self.episodes, self.gamma = env, every, episodes, gamma
        self.results: list[tuple[int, Evaluation]] = []

    def _on_step(self) -> bool:
        if self.n_calls % max(self.every // self.training_env.num_envs, 1) == 0:
            result = evaluate(self.env, self.model, episodes=self.episodes, gamma=self.gamma, seed=len(self.results))
            self.results.append((self.num_timesteps, result))
            self.logger.record("eval/value", result.value)
            if result.half_width is not None:
                self.logger.record("eval/half_width", result.half_width)
            self.logger.record("eval/mean_ep_length", result.quantities["length"].value)
            if self.verbose:
                print(f"after {self.num_timesteps:,} steps: {result}")
        return True
