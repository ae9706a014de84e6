"""A Stable-Baselines3 callback that evaluates during training, balanced, with an interval."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize

from evenroll.errors import SpecError
from evenroll.evaluation.evaluate import evaluate
from evenroll.evaluation.result import Evaluation


class EvalCallback(BaseCallback):
    """Evaluate the model every `every` training steps, and log its value and half-width.

    The model is evaluated as it acts in training, not by its likeliest actions. If it is trained in a VecNormalize, the
    evaluation environment must be one, too, and takes over the statistics before every evaluation.

    env      an environment for evaluation only, Gymnasium's or a VecEnv
    results  all evaluations so far, each with the number of training steps before it
    """

    def __init__(self, env: Any, every: int = 10_000, episodes: int = 50, gamma: float = 1.0, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.env, self.every, self.episodes, self.gamma = env, every, episodes, gamma
        self.results: list[tuple[int, Evaluation]] = []

    def _on_training_start(self) -> None:
        self._take_over_statistics()  # what does not fit is told now, not after hours of training

    def _take_over_statistics(self) -> None:
        """Give the evaluation environment the statistics of the training environment, as Stable-Baselines3's callback does.

        Only those of observations matter, but both are taken over, so that rewards are scaled alike if they are.
        """
        trained = self.model.get_vec_normalize_env()
        if trained is None:
            return
        own = unwrap_vec_normalize(self.env) if isinstance(self.env, VecEnv) else None
        if own is None:
            raise SpecError(
                "the model is trained in a VecNormalize, and the evaluation environment is none: give "
                "EvalCallback(VecNormalize(DummyVecEnv([make]), training=False, norm_reward=False))"
            )
        if trained.norm_obs != own.norm_obs:
            raise SpecError("of the training and the evaluation environment only one normalises observations (norm_obs)")
        if trained.norm_obs:
            own.obs_rms, own.clip_obs, own.epsilon = deepcopy(trained.obs_rms), trained.clip_obs, trained.epsilon
        own.ret_rms = deepcopy(trained.ret_rms)

    def _on_step(self) -> bool:
        if self.n_calls % max(self.every // self.training_env.num_envs, 1) == 0:
            self._take_over_statistics()
            result = evaluate(self.env, self.model, episodes=self.episodes, gamma=self.gamma, seed=len(self.results))
            self.results.append((self.num_timesteps, result))
            self.logger.record("eval/value", result.value)
            if result.half_width is not None:
                self.logger.record("eval/half_width", result.half_width)
            self.logger.record("eval/mean_ep_length", result.quantities["length"].value)
            if self.verbose:
                print(f"after {self.num_timesteps:,} steps: {result}")
        return True
