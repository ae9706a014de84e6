"""Commands of many trials: compare, value, train, bench."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenroll.cli.app import COMMANDS, app
from evenroll.domains.catalogue import get_domain
from evenroll.domains.domain import Truth
from evenroll.errors import EvenrollError
from evenroll.study.true_value import truth
from tests.helpers import command


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
    known = truth(get_domain("gridworld"), get_domain("gridworld").policy())
    result = json.loads(command("value", "gridworld", "--json", "-").stdout)
    assert result == {
        "domain": "gridworld", "value": known.value, "value_se": 0, "mean_length": known.mean_length,
        "variance": known.variance,
    }  # fmt: skip
    assert known.variance > 1.0


def test_a_variance_that_nobody_knows_is_null() -> None:
    result = json.loads(command("value", "bandit:redraw=1", "--json", "-").stdout)
    assert (result["value"], result["mean_length"], result["variance"]) == (0.5, 1.0, None)


def test_value_by_rollouts_says_how_sure_it_is(tmp_path) -> None:
    """Against exact numbers: value within 6 standard errors, which are √(Var/n); in JSON and in words. Episodes are
    rounded up to whole blocks of 20,000."""
    known, n = truth(get_domain("gridworld"), get_domain("gridworld").policy()), 20_000
    run = command("value", "gridworld", "--fresh", "--episodes", str(n), "--json", "v.json", cwd=tmp_path)
    result = json.loads((tmp_path / "v.json").read_text())
    assert abs(result["value"] - known.value) < 6 * result["value_se"]
    assert result["value_se"] == pytest.approx((known.variance / n) ** 0.5, rel=0.2)
    assert result["mean_length"] == pytest.approx(known.mean_length, rel=0.1)
    assert result["variance"] == pytest.approx(known.variance, rel=0.4)
    assert f"v(π) = {result['value']:.10g} ± {result['value_se']:.2g} (1 s.e.)" in run.stdout


def test_equal_returns_of_rollouts_are_not_called_exact(monkeypatch, capsys) -> None:
    """Rollouts whose returns are all equal have a standard error of 0 and are no proof."""
    from evenroll.cli import study
    from evenroll.study import true_value

    monkeypatch.setattr(true_value, "value_by_rollouts", lambda *_, **__: Truth(3.0, 0.0, 8.0, 0.0))
    study.value("gridworld", fresh=True)
    assert "v(π) = 3 ± 0 (all returns were equal)" in capsys.readouterr().out
    study.value("gridworld")
    assert "(exact)" in capsys.readouterr().out


def test_train_makes_a_policy_that_evaluates(tmp_path) -> None:
    run = command("train", "cartpole:actions=3", "--episodes", "64", "--out", "p.safetensors", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    run = command("evaluate", "cartpole:actions=3", "--policy", "p.safetensors", "--episodes", "50", cwd=tmp_path)
    assert run.returncode == 0, run.stderr


def test_train_from_balanced_batches(tmp_path) -> None:
    """The sampler decides what is learnt, and is told."""
    found = []
    for i, sampler in enumerate(("os", "auto", "auto")):
        run = command(
            "train", "gridworld", "--episodes", "64", "--sampler", sampler, "--out", f"{i}.safetensors", "--json", "-",
            cwd=tmp_path,
        )  # fmt: skip
        found.append(json.loads(run.stdout))
    assert [x["sampler"] for x in found] == ["os", "auto", "auto"]
    assert found[0]["value"] != found[1]["value"] == found[2]["value"]


def test_train_tells_in_json_and_does_not_write_over_what_was_not_named(tmp_path) -> None:
    run = command("train", "gridworld", "--episodes", "64", "--json", "-", cwd=tmp_path)
    found = json.loads(run.stdout)
    assert (found["policy"], found["episodes"], found["value_se"]) == ("gridworld.safetensors", 64, 0)
    before = (tmp_path / "gridworld.safetensors").read_bytes()
    run = command("train", "gridworld", "--episodes", "64", "--seed", "1", cwd=tmp_path)
    assert run.returncode == 2
    assert "--out" in run.stderr
    assert (tmp_path / "gridworld.safetensors").read_bytes() == before


@pytest.mark.parametrize("file", ["model.zip", "model.pt", "mine:policy"])
@pytest.mark.parametrize("words", [("value", "cartpole"), ("compare", "cartpole", "--method", "os"), ("coverage", "bandit")])
def test_policies_that_only_evaluate_takes_are_sent_there(file: str, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*words, "--policy", file])
    assert isinstance(result.exception, EvenrollError)
    assert "`evenroll evaluate`" in str(result.exception)


@pytest.mark.parametrize("columns", [60, 80])
def test_help_shows_the_whole_grammar_and_names_are_whole(columns: int) -> None:
    environment = {"COLUMNS": str(columns), "TERM": "dumb", "NO_COLOR": "1"}
    shown = CliRunner().invoke(app, ["compare", "--help"], env=environment).output
    assert "[init+]SAMPLER[:key=value,…][/ESTIMATOR]" in shown
    shown = CliRunner().invoke(app, ["coverage", "--help"], env=environment).output
    assert "[init+]SAMPLER[:key=value,…]" in shown
    method = "init+auto:max_kl=0.01/wis+mc"
    code = ["compare", "bandit", "--method", "ros:alpha=1000/mc", "--method", method, "--trials", "2", "--budget", "8"]
    run = subprocess.run(
        [sys.executable, "-m", "evenroll", *code], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    for name in ("ros:alpha=1000/mc", method, "vs first", "bias"):
        assert name in run.stdout


@pytest.mark.parametrize("command_name", [command.__name__ for command, _ in COMMANDS])
def test_no_word_of_a_help_page_is_cut(command_name: str) -> None:
    shown = CliRunner().invoke(app, [command_name, "--help"], env={"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}).output
    cut = [word for word in shown.split() if word.endswith("…") and not word.endswith(("=…", ",…"))]
    assert cut in ([], ["…"])  # `fig1 … fig14`


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
    assert len(bad.stderr.strip().splitlines()) == 1  # Rich before 14.3 ends a bar that was never drawn with an empty line
