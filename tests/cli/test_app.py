"""The command line as a person meets it: output, JSON, exit codes, nothing half-written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evenroll.cli.app import app
from evenroll.errors import EvenrollError
from evenroll.policies import TabularSoftmax, save_policy
from tests.helpers import command


def test_evaluate_json_to_standard_output_is_nothing_but_json() -> None:
    run = command("evaluate", "gridworld", "--sampler", "os", "--episodes", "200", "--json", "-")
    result = json.loads(run.stdout)
    assert run.returncode == 0
    assert result["low"] < result["value"] < result["high"]
    assert (result["episodes"], result["sampler"], result["estimator"]) == (200, "os", "mc")
    assert result["terminated"] + result["truncated"] == 200


def test_evaluate_is_the_same_in_python() -> None:
    import evenroll as package

    run = command("evaluate", "gridworld", "--sampler", "os", "--episodes", "100", "--seed", "4", "--json", "-")
    assert json.loads(run.stdout)["value"] == package.evaluate("gridworld", sampler="os", episodes=100, seed=4).value
    assert package.evaluate("gridworld", sampler=package.ROS(5.0), steps=300).steps == 300


def test_compare_writes_its_json_and_picture(tmp_path) -> None:
    run = command(
        "compare",
        "gridworld",
        "--method",
        "os/mc",
        "--method",
        "ros:alpha=1000/mc",
        "--method",
        "init+ros/mc",
        "--trials",
        "5",
        "--budget",
        "32",
        "--sampling-error",
        "--json",
        "r.json",
        "--plot",
        "p.png",
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert "ros:alpha=1000/mc" in run.stdout
    result = json.loads((tmp_path / "r.json").read_text())
    assert [m["method"] for m in result["methods"]] == ["os/mc", "ros:alpha=1000/mc", "init+ros:alpha=10000/mc"]
    n = len(result["checkpoints"])
    keys = {"method", "mse", "mse_se", "median", "q25", "q75", "bias", "missing", "kl", "grad_norm"}
    for method in result["methods"]:
        assert keys <= method.keys()
        assert all(len(method[key]) == n for key in keys - {"method"})
    assert result["methods"][1]["kl"][-1] < result["methods"][0]["kl"][-1]
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"


def test_value_is_exact_on_gridworld() -> None:
    result = json.loads(command("value", "gridworld", "--json", "-").stdout)
    assert result["value_se"] == 0


def test_train_makes_a_policy_that_evaluates(tmp_path) -> None:
    run = command("train", "cartpole:actions=3", "--episodes", "64", "--out", "p.safetensors", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    run = command("evaluate", "cartpole:actions=3", "--policy", "p.safetensors", "--episodes", "50", cwd=tmp_path)
    assert run.returncode == 0, run.stderr


OWN = """
import numpy as np
import evenroll

def arms():
    return evenroll.tabular_domain("arms", np.ones((1, 2, 1)), [[0.0, 1.0]], [1.0], horizon=1)
"""


def test_a_domain_of_ones_own_is_trained_valued_and_timed(tmp_path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    run = command("value", "mine:arms", cwd=tmp_path)
    assert run.returncode == 2
    assert "give a policy, or make one with `evenroll train`" in run.stderr
    run = command("train", "mine:arms", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "arms has no recipe of its own: 5000 episodes" in run.stderr
    run = command("value", "mine:arms", "--policy", "arms.safetensors", "--json", "-", cwd=tmp_path)
    result = json.loads(run.stdout)
    assert result["value_se"] == 0
    assert result["value"] > 0.8
    run = command("bench", "mine:arms", "--quick", "--json", "-", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert [row["domain"] for row in json.loads(run.stdout)["speeds"]] == ["arms"]


BAD = {
    "unknown domain": ["evaluate", "gridwrld"],
    "negative alpha": ["evaluate", "gridworld", "--sampler", "ros:alpha=-1"],
    "alpha not a number": ["compare", "gridworld", "--method", "ros:alpha=nan"],
    "unknown sampler": ["compare", "gridworld", "--method", "rosy"],
    "unknown estimator": ["evaluate", "gridworld", "--estimator", "mcc"],
    "budget below one episode": ["compare", "gridworld", "--method", "os", "--budget", "0.1", "--json", "r.json"],
    "no episodes": ["evaluate", "gridworld", "--episodes", "0"],
    "episodes and steps": ["evaluate", "gridworld", "--episodes", "5", "--steps", "5"],
    "far too many episodes": ["evaluate", "gridworld", "--episodes", "9" * 20],
    "a device to write to": ["evaluate", "gridworld", "--episodes", "3", "--json", "/dev/full"],
    "gamma": ["evaluate", "gridworld", "--gamma", "1.5"],
    "policy missing": ["evaluate", "gridworld", "--policy", "absent.safetensors"],
    "policy of another shape": ["evaluate", "gridworld", "--policy", "small.safetensors"],
    "policy of another kind": ["evaluate", "cartpole", "--policy", "small.safetensors"],
    "no place to write": ["compare", "gridworld", "--method", "os", "--json", "absent/r.json"],
    "plot type": ["compare", "gridworld", "--method", "os", "--trials", "2", "--budget", "4", "--plot", "p.docx"],
    "value zero": ["compare", "gridworld", "--method", "os", "--value", "0"],
    "variant without a policy": ["evaluate", "cartpole:actions=3"],
    "no method": ["compare", "gridworld"],
    "text for a number": ["evaluate", "gridworld", "--episodes", "many"],
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line_and_exit_code_2(case: str, tmp_path) -> None:
    save_policy(TabularSoftmax(np.zeros((16, 3))), tmp_path / "small.safetensors")
    run = command(*BAD[case], cwd=tmp_path)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr + run.stdout
    assert run.stderr.strip()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small.safetensors"]
    assert len(run.stderr.strip().splitlines()) == 1
    assert run.stderr.startswith("error: ")


def test_help_has_examples() -> None:
    for name in ("evaluate", "compare", "value", "train", "bench"):
        run = command(name, "--help")
        assert run.returncode == 0
        assert "Example" in run.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "gridworld", "--method", "os/mc", "--budget", "1e30"],
        ["reproduce", "fig1", "--domain", "nope", "--quick"],
        ["evaluate", "cartpole:actions=2.5"],
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, EvenrollError)


def test_coverage_command(tmp_path):
    target = tmp_path / "coverage.json"
    shown = CliRunner().invoke(app, ["coverage", "bandit", "--episodes", "64", "--repeats", "20", "--json", str(target)])
    assert shown.exit_code == 0
    found = json.loads(target.read_text())
    wanted = {"coverage", "coverage_low", "coverage_high", "half_width", "oracle_ratio", "iid_ratio", "fallback", "repeats"}
    assert wanted <= found.keys()
    assert found["repeats"] == 20
    assert found["coverage_low"] <= found["coverage"] <= found["coverage_high"]


def test_executor_on_the_command_line(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "evenroll", "compare", "bandit", "--method", "os/mc", "--trials", "4", "--budget", "8"]
    found = []
    for executor in ("threads", "processes"):
        path = tmp_path / f"{executor}.json"
        subprocess.run([*run, "--executor", executor, "--json", str(path)], check=True, capture_output=True)
        found.append(json.loads(path.read_text())["methods"])
    assert found[0] == found[1]
    bad = subprocess.run([*run, "--executor", "carrier-pigeon"], capture_output=True, text=True)
    assert bad.returncode == 2
    assert bad.stderr.count("\n") == 1
