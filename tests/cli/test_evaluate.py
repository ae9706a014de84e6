"""Commands around one policy: collect, diagnose, repair, evaluate, difference."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

import evenroll
from evenroll.cli.app import app
from evenroll.collection.rollout_files import load_rollouts
from evenroll.domains.catalogue import get_domain
from evenroll.policies import epsilon_greedy, save_policy
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


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("evaluate", "CartPole-v1"), "--policy"),
        (("evaluate", "NoSuch-v0", "--policy", "p.safetensors"), "no environment"),
        (("evaluate", "CartPole-v1", "--policy", "nothing.zip"), "no such file"),
        (("evaluate", "CartPole-v1", "--policy", "nowhere:policy"), "cannot find"),
        (("evaluate", "Pendulum-v1", "--policy", "p.safetensors"), "4 numbers"),
        (("evaluate", "cartpole", "--envs", "2"), "for environments"),
        (("collect", "CartPole-v1", "--policy", "p.safetensors", "--out", "x.csv"), ".parquet"),
        (("diagnose", "none.parquet", "--policy", "p.safetensors"), "no such file"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, text: str) -> None:
    save_policy(get_domain("cartpole").policy(), tmp_path / "p.safetensors")
    run = command(*arguments, cwd=tmp_path)
    assert run.returncode == 2
    assert text in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_own_policy_file_on_a_vector_environment(tmp_path) -> None:
    save_policy(get_domain("cartpole").policy(), tmp_path / "p.safetensors")
    run = command(
        "evaluate", "CartPole-v1", "--policy", "p.safetensors", "--envs", "3", "--episodes", "7", "--json", "-", cwd=tmp_path
    )
    assert json.loads(run.stdout)["episodes"] == 7
    env = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 3)
    assert evenroll.evaluate(env, tmp_path / "p.safetensors", episodes=7).value == json.loads(run.stdout)["value"]


def test_command(tmp_path) -> None:
    for name, policy in (("a", get_domain("gridworld").policy()), ("b", epsilon_greedy(np.zeros(16, dtype=int), 4, 0.5))):
        save_policy(policy, tmp_path / f"{name}.safetensors")
    files = [str(tmp_path / f"{name}.safetensors") for name in "ab"]
    run = ["difference", "evenroll/GridWorld-v0", "--policy", files[0], "--against", files[1], "--episodes", "40"]
    result = CliRunner().invoke(app, [*run, "--json", "-"])
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert found["low"] < found["value"] < found["high"]
    assert found["first"]["episodes"] == found["second"]["episodes"] == 40
    assert "better" in CliRunner().invoke(app, run).output
