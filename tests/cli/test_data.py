"""Collect, diagnose, repair and evaluate: a day on the command line."""

from __future__ import annotations

import json

import pytest

from evenroll.collection.rollout_files import load_rollouts
from tests.helpers import command

MINE = """
import gymnasium as gym, numpy as np
def env():
    return gym.make("CartPole-v1")
def policy(observation):
    p = 1 / (1 + np.exp(-8 * (observation[2] + observation[3])))
    return [1 - p, p]
class Failing(gym.Wrapper):
    steps = 0
    def step(self, action):
        self.steps += 1
        x, r, *rest = super().step(action)
        return x, float("nan") if self.steps == 600 else r, *rest
def failing():
    return Failing(env())
"""


def test_a_day_on_the_command_line(tmp_path) -> None:
    """Collect off-policy data, diagnose it, repair it; evaluate; plot; fail and go on."""
    (tmp_path / "mine.py").write_text(MINE)
    ours = ("--policy", "mine:policy")
    run = command(
        "collect", "mine:env", *ours, "--sampler", "off:delta=0.4", "--episodes", "20", "--out", "a.parquet", cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    run = command("diagnose", "a.parquet", *ours, "--env", "CartPole-v1", "--json", "-", cwd=tmp_path)
    assert json.loads(run.stdout)["excess"] > 1.0
    run = command("evaluate", "CartPole-v1", *ours, "--episodes", "40", "--initial-data", "a.parquet", "--plot", "p.png",
                  "--json", "r.json", cwd=tmp_path)  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "undiscounted" in run.stdout
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["episodes"] == 60
    assert result["quantities"]["length"]["value"] == pytest.approx(result["steps"] / 60)
    assert (tmp_path / "p.png").stat().st_size > 5000
    run = command("evaluate", "mine:failing", *ours, "--episodes", "30", cwd=tmp_path)
    assert run.returncode == 2
    assert "reward nan: episode" in run.stderr
    assert "Traceback" not in run.stderr
    kept = load_rollouts(tmp_path / "mine-failing-partial.safetensors")
    assert 0 < kept.episodes < 30


def test_workers_on_the_command_line(tmp_path) -> None:
    """The user's own environment and policy, by name, in threads and in processes: one file, one result, one spool."""
    (tmp_path / "mine.py").write_text(MINE)
    given = ("mine:env", "--policy", "mine:policy")
    for name, more in {"a": ("--workers", "1"), "b": ("--workers", "2", "--executor", "processes")}.items():
        run = command("collect", *given, "--episodes", "6", "--out", f"{name}.safetensors", *more, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        assert "6 episodes" in run.stdout
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    told = []
    for _ in range(2):
        again = ("--episodes", "6", "--spool", "spool", "--resets", "9", "--json", "-")
        run = command("evaluate", *given, *again, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        told.append(json.loads(run.stdout))
    assert told[0] == told[1]
    assert told[0]["episodes"] == 6
    for wrong, said in {"--seed=1": "belongs to another run, with another seed", "--envs=2": "not both"}.items():
        run = command("evaluate", *given, "--episodes", "6", "--spool", "spool", wrong, cwd=tmp_path)
        assert run.returncode == 2
        assert said in " ".join(run.stderr.split())
