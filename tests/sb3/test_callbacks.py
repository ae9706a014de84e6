"""Evaluation during training leaves no trace, and sees what the policy sees in training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO, RecurrentPPO
from sb3_contrib.common.wrappers import ActionMasker
from stable_baselines3 import PPO, SAC
from stable_baselines3.common import callbacks as original
from stable_baselines3.common.callbacks import StopTrainingOnNoModelImprovement, StopTrainingOnRewardThreshold
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize

import evenroll
from evenroll.errors import SpecError
from evenroll.evaluation.result import Quantity
from evenroll.sb3 import callbacks
from evenroll.sb3.callbacks import EvalCallback


def test_evaluation_during_training_leaves_no_trace() -> None:
    """The callback sees a policy that changes, and training goes on as if it had not looked."""
    trained = []
    looking = EvalCallback(gym.make("CartPole-v1"), eval_freq=256, n_eval_episodes=10, deterministic=False, verbose=0)
    for callback in (None, looking):
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=128, n_epochs=1, seed=0, device="cpu").learn(512, callback=callback)
        trained.append([p.detach().clone() for p in model.policy.parameters()])
    assert [steps for steps, _ in looking.results] == [256, 512]
    assert looking.results[0][1].value != looking.results[1][1].value
    assert all(torch.equal(a, b) for a, b in zip(*trained, strict=True))
    assert not any(part._forward_pre_hooks or part._forward_hooks for part in model.policy.modules())


def test_statistics_are_taken_over_from_training() -> None:
    """The evaluation environment normalises as training does at that moment, and does not learn by itself."""
    seen = []

    class Watched(EvalCallback):
        def _on_step(self) -> bool:
            before = len(self.results)
            going = super()._on_step()
            if len(self.results) > before:
                seen.append((evaluation.obs_rms.mean.copy(), training.obs_rms.mean.copy(), evaluation.obs_rms.count))
            return going

    training = VecNormalize(make_vec_env("CartPole-v1", 2, seed=0), clip_obs=3.0)
    evaluation = VecNormalize(make_vec_env("CartPole-v1", 1), training=False, norm_reward=False)
    callback = Watched(VecFrameStack(evaluation, 1), eval_freq=128, n_eval_episodes=5, verbose=0)
    PPO("MlpPolicy", training, n_steps=128, n_epochs=1, seed=0, device="cpu").learn(512, callback=callback)
    assert len(seen) == 2
    for theirs, ours, _ in seen:
        np.testing.assert_array_equal(theirs, ours)
    assert (seen[0][0] != seen[1][0]).all()
    assert 0 < seen[0][2] < seen[1][2]
    assert evaluation.clip_obs == 3.0
    assert [result.warnings for _, result in callback.results] == [(), ()]


def test_an_evaluation_environment_without_statistics_is_refused_before_training() -> None:
    training = VecNormalize(make_vec_env("CartPole-v1", 1))
    model = PPO("MlpPolicy", training, n_steps=64, device="cpu")
    for env in (gym.make("CartPole-v1"), DummyVecEnv([lambda: gym.make("CartPole-v1")])):
        with pytest.raises(SpecError, match="training=False, norm_reward=False"):
            model.learn(64, callback=EvalCallback(env))
    half = VecNormalize(make_vec_env("CartPole-v1", 1), norm_obs=False)
    with pytest.raises(SpecError, match="only one normalises"):
        model.learn(64, callback=EvalCallback(half))
    assert model.num_timesteps == 0


class Kept(KVWriter):
    """A logger's output that remembers everything, as TensorBoard, W&B and MLflow would."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, Any]]] = []

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        self.rows.append((step, dict(key_values)))

    def close(self) -> None:
        pass


class Flagged(gym.Wrapper):
    """An episode of at least 15 steps is a success."""

    def reset(self, **options: Any) -> Any:
        self.t = 0
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self.t += 1
        observation, reward, over, cut, info = super().step(action)
        return observation, reward, over, cut, {**info, "is_success": self.t >= 15}


def learnt(kind: type, folder: Path, **options: Any) -> tuple[Any, Kept, PPO]:
    """Train with a callback of this class, with the arguments that Stable-Baselines3's takes, on single or vector envs."""
    env, kept = Monitor(Flagged(gym.make("CartPole-v1"))), Kept()
    callback = kind(
        env, n_eval_episodes=6, eval_freq=128, log_path=str(folder / "log"), best_model_save_path=str(folder / "best"),
        verbose=0, **options,
    )  # fmt: skip
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, n_epochs=1, seed=0, device="cpu")
    model.set_logger(Logger(None, [kept]))
    model.learn(256, callback=callback)
    return callback, kept, model


def test_exchanging_the_import_is_enough(tmp_path: Path) -> None:
    """The same arguments, the same files with the same contents in them, the same names in the log, at the same steps."""
    found = {}
    for name, kind in (("theirs", original.EvalCallback), ("ours", EvalCallback)):
        callback, kept, _ = learnt(kind, tmp_path / name)
        assert (tmp_path / name / "best" / "best_model.zip").exists()
        found[name] = np.load(tmp_path / name / "log" / "evaluations.npz"), kept.rows, callback
    (theirs, their_rows, _), (ours, our_rows, callback) = found["theirs"], found["ours"]
    assert set(ours.files) == set(theirs.files) == {"timesteps", "results", "ep_lengths", "successes"}
    for key in ours.files:
        assert ours[key].shape == theirs[key].shape, key
        assert ours[key].dtype.kind == theirs[key].dtype.kind or key == "results"
    np.testing.assert_array_equal(ours["timesteps"], theirs["timesteps"])
    logged = [{step: set(row) for step, row in rows if "eval/mean_reward" in row} for rows in (their_rows, our_rows)]
    assert logged[0].keys() == logged[1].keys() == {128, 256}
    extra = {"eval/plain_mean", "eval/half_width", "eval/on_policy_episodes"}
    for step, names in logged[0].items():
        assert names <= logged[1][step] <= names | extra
    for i, (_, result) in enumerate(callback.results):
        row = next(row for step, row in our_rows if step == 128 * (i + 1))
        np.testing.assert_array_equal(ours["results"][i], ours["ep_lengths"][i])  # the reward is 1 a step
        assert row["eval/plain_mean"] == pytest.approx(ours["results"][i].mean())
        assert row["eval/success_rate"] == pytest.approx(ours["successes"][i].mean())
        assert row["eval/mean_reward"] == result.value
        assert row["eval/half_width"] == result.half_width
        assert (ours["successes"][i] == (ours["ep_lengths"][i] >= 15)).all()


def test_the_estimate_and_the_plain_mean_are_logged_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = callbacks.evaluate

    def other(*given: Any, **options: Any) -> evenroll.Evaluation:
        return replace(real(*given, **options), value=7.0, mean=Quantity(5.0, 4.0, 6.0), on_policy_episodes=12.0)

    monkeypatch.setattr(callbacks, "evaluate", other)
    callback, kept, _ = learnt(EvalCallback, tmp_path)
    for _, row in kept.rows:
        if "eval/mean_reward" in row:
            assert [row[f"eval/{name}"] for name in ("mean_reward", "plain_mean", "on_policy_episodes")] == [7.0, 5.0, 12.0]
    assert callback.best_mean_reward == 7.0


def result_of(value: float, half: float | None) -> evenroll.Evaluation:
    base = evenroll.evaluate("bandit", episodes=10)
    low, high = (None, None) if half is None else (value - half, value + half)
    return replace(base, value=value, low=low, high=high)


def test_the_best_model_is_replaced_when_another_is_shown_to_be_better() -> None:
    """A difference of 5 with half-widths 3 and 4 is just as large as its interval, and shows nothing; 5.1 does."""
    env = gym.make("CartPole-v1")
    shown, larger = EvalCallback(env), EvalCallback(env, best="larger")
    old = result_of(10.0, 3.0)
    for value, half, by_shown, by_larger in (
        (15.0, 4.0, False, True), (15.1, 4.0, True, True), (9.9, 0.1, False, False), (10.1, None, True, True),
    ):  # fmt: skip
        new = result_of(value, half)
        assert (shown._is_better(new, old), larger._is_better(new, old)) == (by_shown, by_larger)
    low_tail = replace(result_of(15.1, 4.0), low=9.1)  # the end that faces the old one lies 6 away: √(6² + 3²) > 5.1
    high_tail = replace(result_of(15.1, 4.0), high=99.0)  # the other end does not matter
    assert (shown._is_better(low_tail, old), shown._is_better(high_tail, old)) == (False, True)
    with pytest.raises(SpecError, match='"shown" or "larger"'):
        EvalCallback(env, best="luckiest")


def test_the_kept_model_is_the_one_that_was_evaluated(tmp_path: Path) -> None:
    """`best_model.zip` has the weights of the evaluation that is called the best, and so has `best_mean_reward`."""
    callback, _, _ = learnt(EvalCallback, tmp_path, best="larger")
    best = max(callback.results, key=lambda found: found[1].value)
    assert callback.best_mean_reward == callback.best_result.value == best[1].value
    kept = PPO.load(tmp_path / "best" / "best_model", device="cpu")
    assert kept.num_timesteps == best[0]
    assert callback.last_mean_reward == callback.results[-1][1].value


def test_callbacks_that_stop_training_work() -> None:
    """On a reward that the first evaluation has; and after one evaluation without a better model."""
    env = gym.make("CartPole-v1")
    for options, steps in (
        ({"callback_on_new_best": StopTrainingOnRewardThreshold(1.0)}, 64),
        ({"callback_after_eval": StopTrainingOnNoModelImprovement(0, min_evals=1)}, 128),
    ):
        callback = EvalCallback(env, eval_freq=64, n_eval_episodes=8, verbose=0, **options)
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, n_epochs=1, learning_rate=0.0, seed=0, device="cpu")
        model.learn(1000, callback=callback)
        assert model.num_timesteps == steps, options


def test_rewards_are_not_scaled_and_nothing_is_learnt_while_it_is_evaluated() -> None:
    """An evaluation environment that was made like the training one: its flags are as before in the end."""
    training = VecNormalize(make_vec_env("CartPole-v1", 1, seed=0))
    evaluation = VecNormalize(make_vec_env("CartPole-v1", 1))
    callback = EvalCallback(evaluation, eval_freq=128, n_eval_episodes=5, verbose=0)
    PPO("MlpPolicy", training, n_steps=128, n_epochs=1, seed=0, device="cpu").learn(256, callback=callback)
    for _, result in callback.results:
        assert result.warnings == ()
        assert result.mean.value == pytest.approx(result.quantities["length"].value)  # 1 a step
    assert (evaluation.training, evaluation.norm_reward) == (True, True)
    assert evaluation.obs_rms.count == training.obs_rms.count


@pytest.mark.parametrize("kind", ["SAC", "recurrent", "masked", "vector"])
def test_other_models_and_environments(kind: str) -> None:
    settings = {"seed": 0, "device": "cpu"}
    env: Any = gym.make("CartPole-v1")
    if kind == "SAC":
        env = gym.make("Pendulum-v1")
        model: Any = SAC("MlpPolicy", "Pendulum-v1", learning_starts=50, policy_kwargs={"net_arch": [16]}, **settings)
    elif kind == "recurrent":
        model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=64, n_epochs=1, **settings)
    elif kind == "masked":
        env = ActionMasker(env, lambda env: np.array([True, True]))
        model = MaskablePPO("MlpPolicy", env, n_steps=64, n_epochs=1, **settings)
    else:
        env = make_vec_env("CartPole-v1", 3, seed=1)
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, n_epochs=1, **settings)
    callback = EvalCallback(env, eval_freq=64, n_eval_episodes=6, deterministic=False, verbose=0)
    model.learn(64, callback=callback)
    ((steps, result),) = callback.results
    assert (steps, result.episodes) == (64, 6)
    assert result.sampler == "auto"


def test_it_says_what_it_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    env = Monitor(Flagged(gym.make("CartPole-v1")))
    callback = EvalCallback(env, eval_freq=64, n_eval_episodes=6)
    PPO("MlpPolicy", "CartPole-v1", n_steps=64, n_epochs=1, seed=0, device="cpu").learn(64, callback=callback)
    said = capsys.readouterr().out
    assert f"Eval num_timesteps=64, episode_reward={callback.results[0][1]}" in said
    for words in ("Episode length: ", "Success rate: ", "New best mean reward!"):
        assert words in said
    with pytest.raises(SpecError, match="RecordVideo"):
        EvalCallback(env, render=True)
    assert EvalCallback(env, eval_freq=0)._on_step() is True
