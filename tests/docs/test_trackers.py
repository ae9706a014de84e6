"""The blocks of the page that log to TensorBoard, Weights & Biases and MLflow do what they say, where these are there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from stable_baselines3 import PPO

from evenroll.sb3 import EvalCallback

PAGE = Path(__file__).parents[2] / "docs" / "own-loop.md"
NAMES = {"eval/mean_reward", "eval/plain_mean", "eval/half_width", "eval/mean_ep_length"}


def run(number: int) -> None:
    """One of the page's three blocks, with a small model in the place of PPO."""
    part = PAGE.read_text(encoding="utf-8").partition("### TensorBoard")[2]
    block = re.findall(r"^```python\n(.*?)^```", part, re.M | re.S)[number]

    def small(policy: str, env: Any, **options: Any) -> PPO:
        return PPO(policy, env, n_steps=64, n_epochs=1, seed=0, device="cpu", **options)

    evaluation = EvalCallback(gym.make("CartPole-v1"), n_eval_episodes=5, eval_freq=64, deterministic=False, verbose=0)
    exec(
        compile(block, "own-loop.md", "exec"),
        {"PPO": small, "env": gym.make("CartPole-v1"), "steps": 128, "evaluation": evaluation},
    )
    assert len(evaluation.results) == 2


def test_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    monkeypatch.chdir(tmp_path)
    run(0)
    events = accumulator.EventAccumulator(str(tmp_path / "logs" / "run_1"))
    events.Reload()
    assert set(events.Tags()["scalars"]) >= NAMES
    assert [event.step for event in events.Scalars("eval/mean_reward")] == [64, 128]


def test_weights_and_biases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run(1)
    stored = [path for path in (tmp_path / "wandb").rglob("*.wandb") if os.path.getsize(path)]
    assert len(stored) == 1
    assert all(name.encode() in stored[0].read_bytes() for name in NAMES)


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    run(2)
    found = mlflow.MlflowClient().search_runs(["0"])[0]
    assert set(found.data.metrics) >= NAMES
    history = mlflow.MlflowClient().get_metric_history(found.info.run_id, "eval/mean_reward")
    assert [one.step for one in history] == [64, 128]
