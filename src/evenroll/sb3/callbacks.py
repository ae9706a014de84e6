"""Stable-Baselines3's EvalCallback, with balanced actions, an interval, and a best model that was shown to be better.

Exchanging the import is enough:

    from evenroll.sb3 import EvalCallback     # instead of stable_baselines3.common.callbacks
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.callbacks import EvalCallback as Original
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, unwrap_vec_normalize

from evenroll.errors import SpecError
from evenroll.evaluation.evaluate import evaluate
from evenroll.evaluation.result import Evaluation
from evenroll.text.specs import whole_number


class EvalCallback(Original):
    """Evaluate the model every `eval_freq` calls, log what was found, and keep the best model.

    Arguments, files and log names are those of Stable-Baselines3's EvalCallback. `eval/mean_reward` is the estimate of the
    undiscounted return, with the luck taken out that could be found; beside it stand `eval/plain_mean`, the mean that
    Stable-Baselines3 would log, `eval/half_width` of the 95 % interval, and `eval/on_policy_episodes`, how many independent
    episodes would be as precise. With deterministic=True, which is the default as in Stable-Baselines3, there is no luck
    of actions, but that of starts; with deterministic=False actions are balanced.

    best     "shown": a model replaces the best one only if its value is shown to be larger, that is, if the difference
             exceeds the interval of a difference; of two checkpoints whose difference is luck the first stays. "larger": by
             the larger estimate, as Stable-Baselines3 does, which prefers the luckiest of many.
    results  all evaluations so far, each with the number of training steps before it

    If the model is trained in a VecNormalize, the evaluation environment must be one, too. It takes over the statistics
    before every evaluation, and while it is evaluated it neither learns nor scales rewards.
    """

    def __init__(
        self,
        eval_env: Any,
        callback_on_new_best: BaseCallback | None = None,
        callback_after_eval: BaseCallback | None = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10_000,
        log_path: str | None = None,
        best_model_save_path: str | None = None,
        deterministic: bool = True,
        render: bool = False,
        verbose: int = 1,
        warn: bool = True,
        best: Literal["shown", "larger"] = "shown",
    ) -> None:
        whole_number("n_eval_episodes", n_eval_episodes, 1)
        if best not in ("shown", "larger"):
            raise SpecError(f'best must be "shown" or "larger", not {best!r}')
        if render:
            raise SpecError("nothing is rendered while it is evaluated: wrap the environment in Gymnasium's RecordVideo")
        super().__init__(
            eval_env, callback_on_new_best, callback_after_eval, n_eval_episodes, eval_freq, log_path,
            best_model_save_path, deterministic, render, verbose, warn,
        )  # fmt: skip
        self.given_env, self.best = eval_env, best
        self.results: list[tuple[int, Evaluation]] = []
        self.best_result: Evaluation | None = None

    def _on_training_start(self) -> None:
        super()._on_training_start()
        self._take_over_statistics()  # what does not fit is told now, not after hours of training

    def _take_over_statistics(self) -> None:
        """Give the evaluation environment the statistics of the training environment, as Stable-Baselines3's callback does.

        Only those of observations matter, but both are taken over, so that rewards are scaled alike if they are.
        """
        trained = self.model.get_vec_normalize_env()
        if trained is None:
            return
        own = self._own_statistics()
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

    def _own_statistics(self) -> VecNormalize | None:
        return unwrap_vec_normalize(self.given_env) if isinstance(self.given_env, VecEnv) else None

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        """While the model is evaluated, the environment neither learns nor scales rewards."""
        own = self._own_statistics()
        before = None if own is None else (own.training, own.norm_reward)
        if own is not None:
            own.training = own.norm_reward = False
        try:
            yield
        finally:
            if own is not None and before is not None:
                own.training, own.norm_reward = before

    def _on_step(self) -> bool:
        if self.eval_freq <= 0 or self.n_calls % self.eval_freq != 0:
            return True
        self._take_over_statistics()
        with self._at_rest():
            result = evaluate(
                self.given_env, self.model, episodes=self.n_eval_episodes, deterministic=self.deterministic,
                seed=len(self.results),
            )  # fmt: skip
        self.results.append((self.num_timesteps, result))
        self._write(result)
        self._log(result)
        going = True
        if self.best_result is None or self._is_better(result, self.best_result):
            if self.verbose >= 1:
                print("New best mean reward!")
            if self.best_model_save_path is not None:
                self.model.save(Path(self.best_model_save_path) / "best_model")
            self.best_result, self.best_mean_reward = result, result.value
            if self.callback_on_new_best is not None:
                going = self.callback_on_new_best.on_step()
        if self.callback is not None:
            going = going and self._on_event()
        return going

    def _is_better(self, new: Evaluation, old: Evaluation) -> bool:
        """Whether a model replaces the best one. Where one of the two has no interval, nothing can be shown.

        What counts are the ends that face each other: intervals of skewed returns reach farther on one side.
        """
        apart = new.value - old.value
        if self.best == "larger" or new.low is None or old.high is None:
            return apart > 0.0
        return apart > math.hypot(new.value - new.low, old.high - old.value)

    def _write(self, result: Evaluation) -> None:
        """`evaluations.npz`, as Stable-Baselines3 writes it: returns and lengths of all episodes of all evaluations."""
        data = result.rollouts
        if self.log_path is None or data is None:
            return
        self.evaluations_timesteps.append(self.num_timesteps)
        self.evaluations_results.append(data.returns.tolist())
        self.evaluations_length.append(data.lengths.tolist())
        more: dict[str, Any] = {}
        if data.success is not None:
            self.evaluations_successes.append(data.success.astype(bool).tolist())
            more = {"successes": np.array(self.evaluations_successes)}
        np.savez(
            self.log_path, timesteps=np.array(self.evaluations_timesteps), results=np.array(self.evaluations_results),
            ep_lengths=np.array(self.evaluations_length), **more,
        )  # fmt: skip

    def _log(self, result: Evaluation) -> None:
        length, success = result.quantities["length"], result.quantities.get("success")
        self.last_mean_reward = result.value
        if self.verbose >= 1:
            print(f"Eval num_timesteps={self.num_timesteps}, episode_reward={result}")
            print(f"Episode length: {length}")
        found = {
            "eval/mean_reward": result.value,
            "eval/mean_ep_length": length.value,
            "eval/success_rate": None if success is None else success.value,
            "eval/plain_mean": None if result.mean is None else result.mean.value,
            "eval/half_width": result.half_width,
            "eval/on_policy_episodes": result.on_policy_episodes,
        }
        for name, value in found.items():
            if value is not None:
                self.logger.record(name, float(value))
        if success is not None and self.verbose >= 1:
            print(f"Success rate: {100 * success.value:.2f}%")
        # Dumped at once, so that the evaluation is logged with the right number of steps.
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)
