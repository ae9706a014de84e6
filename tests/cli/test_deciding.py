"""Commands that decide: difference, gate and best."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evenroll.cli.app import app
from evenroll.domains.catalogue import get_domain
from evenroll.policies import epsilon_greedy, save_policy


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Policies for gridworld: good, bad, and in between."""
    good = get_domain("gridworld").policy()
    greedy = good.table.argmax(axis=1)
    found = []
    for name, policy in (("good", epsilon_greedy(greedy, 4, 0.05)), ("bad", epsilon_greedy(np.zeros(16, dtype=int), 4, 0.5)),
                         ("fair", good)):  # fmt: skip
        save_policy(policy, tmp_path / f"{name}.safetensors")
        found.append(str(tmp_path / f"{name}.safetensors"))
    return found


def test_difference(files: list[str]) -> None:
    run = ["difference", "evenroll/GridWorld-v0", "--policy", files[0], "--against", files[1], "--episodes", "40"]
    result = CliRunner().invoke(app, [*run, "--json", "-"])
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert found["low"] < found["value"] < found["high"]
    assert found["first"]["episodes"] == found["second"]["episodes"] == 40
    assert found["verdict"] is None
    assert "better" in CliRunner().invoke(app, run).output


def test_difference_until_decided(files: list[str], tmp_path: Path) -> None:
    run = ["difference", "gridworld", "--policy", files[0], "--against", files[1], "--until-decided", "--most", "60"]
    picture = tmp_path / "pairs.png"
    page = tmp_path / "pairs.html"
    result = CliRunner().invoke(app, [*run, "--plot", str(picture), "--report", str(page)])
    assert result.exit_code == 0
    assert "The first policy is better" in result.output
    assert "pairs of at most 60" in result.output
    assert picture.stat().st_size > 1000
    assert "<h1>The first policy is better in gridworld</h1>" in page.read_text()
    found = json.loads(CliRunner().invoke(app, [*run, "--json", "-"]).output)
    assert (found["verdict"], found["most"]) == ("first", 60)


def test_options_that_do_not_go_together(files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the last of them fails after episodes were collected, which are kept
    run = ["difference", "gridworld", "--policy", files[0], "--against", files[1]]
    for wrong, words in (
        (["--most", "50"], "--until-decided"),
        (["--margin", "1"], "--margin is for --until-decided"),
        (["--until-decided", "--episodes", "50"], "--most"),
        (["--quantity", "success"], "is_success"),
    ):
        result = CliRunner().invoke(app, [*run, *wrong])
        assert result.exit_code != 0
        assert words in str(result.exception)
    said = str(result.exception)  # the command that goes on must not fail in the same way
    assert "go on with: " in said
    assert said.endswith("--quantity return")
    assert "gridworld-partial.safetensors and " in said


def test_gate(files: list[str], tmp_path: Path) -> None:
    run = ["gate", "gridworld", "--most", "40"]
    page = tmp_path / "gate.html"
    passed = CliRunner().invoke(app, [*run, "--policy", files[0], "--against", files[1], "--report", str(page)])
    assert "not worse" in page.read_text()
    assert passed.exit_code == 0
    assert passed.output.startswith("PASS: ")
    assert passed.output.count("\n") == 1
    failed = CliRunner().invoke(app, [*run, "--policy", files[1], "--against", files[0], "--json", "-"])
    assert failed.exit_code == 1
    assert json.loads(failed.output)["verdict"] == "worse"
    unknown = CliRunner().invoke(app, ["gate", "gridworld", "--most", "6", "--policy", files[2], "--against", files[0]])
    assert unknown.exit_code == 3
    assert unknown.output.startswith("UNKNOWN: ")


def test_a_gate_lets_a_policy_pass_that_has_not_changed(files: list[str], tmp_path: Path) -> None:
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(Path(files[0]).read_bytes())
    same = CliRunner().invoke(app, ["gate", "gridworld", "--policy", files[0], "--against", str(copy)])
    assert (same.exit_code, same.output) == (0, "PASS: both files hold the same policy; nothing was run\n")
    told = CliRunner().invoke(app, ["gate", "gridworld", "--policy", files[0], "--against", str(copy), "--json", "-"])
    assert json.loads(told.output)["verdict"] == "not worse"


def test_best(files: list[str], tmp_path: Path) -> None:
    run = ["best", "gridworld", *(word for file in files for word in ("--policy", file)), "--most", "60"]
    picture, page = tmp_path / "race.png", tmp_path / "race.html"
    result = CliRunner().invoke(app, [*run, "--plot", str(picture), "--report", str(page), "--margin", "3"])
    assert result.exit_code == 0
    assert "good is the best" in result.output
    assert "out at" in result.output
    assert "<h1>good is the best</h1>" in page.read_text()
    assert picture.stat().st_size > 1000
    found = json.loads(CliRunner().invoke(app, [*run, "--json", "-"]).output)
    assert found["winner"] == "good"
    assert [runner["name"] for runner in found["runners"]][-1] == "bad"
    twice = CliRunner().invoke(app, ["best", "gridworld", "--policy", files[0], "--policy", files[0]])
    assert "twice" in str(twice.exception)
