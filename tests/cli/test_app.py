"""The command line as a person meets it: output, JSON, exit codes, nothing half-written."""

from __future__ import annotations

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import evenroll.cli.app as app_module
from evenroll.cli.app import app
from evenroll.errors import EvenrollError
from evenroll.policies import TabularSoftmax, save_policy
from tests.helpers import command

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
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small.safetensors"]
    said = [line for line in run.stderr.strip().splitlines() if not line.startswith("compiling for this processor")]
    assert len(said) == 1
    assert said[0].startswith("error: ")


def test_help_has_examples() -> None:
    for name in ("evaluate", "compare", "value", "train", "bench"):
        run = command(name, "--help")
        assert run.returncode == 0
        assert "Example" in run.stdout


def test_help_has_the_paragraphs_of_a_docstring_and_not_its_lines() -> None:
    assert (
        app_module.flowing("One claim.\n\n    A sentence that\n    goes on.\n    ")
        == "One claim.\n\nA sentence that goes on."
    )
    for found in typer.main.get_command(app_module.app).commands.values():
        assert "\n" not in found.help.replace("\n\n", ""), found.name


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


def test_a_command_is_read_alone_and_what_is_none_is_told_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """typer reads the options of every command that it has, which takes a tenth of a second."""
    monkeypatch.delenv("_EVENROLL_COMPLETE", raising=False)
    assert [command.callback.__name__ for command in app_module.only("gate").registered_commands] == ["gate"]
    assert len(app_module.only("gat").registered_commands) == len(app_module.COMMANDS)
    assert len(app_module.only("--help").registered_commands) == len(app_module.app.registered_commands)
    monkeypatch.setenv("_EVENROLL_COMPLETE", "complete_bash")
    assert len(app_module.only("gate").registered_commands) == len(app_module.COMMANDS)
