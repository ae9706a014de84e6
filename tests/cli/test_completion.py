"""What the tab key offers is what there is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from evenroll.cli import completion
from evenroll.estimators.table import ESTIMATORS
from evenroll.samplers.table import SAMPLERS


def test_the_names_are_those_of_the_tables() -> None:
    assert set(completion.SAMPLERS) == set(SAMPLERS)
    assert set(completion.ESTIMATORS) == set(ESTIMATORS)


def test_a_method_is_completed_part_by_part() -> None:
    assert completion.methods("ros-h") == ["ros-head"]
    assert "init+auto" in completion.methods("init+a")
    assert completion.methods("init+ros:alpha=3/wd") == ["init+ros:alpha=3/wdr"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("evenroll evaluate gridw", "gridworld"),
        ("evenroll evaluate CartP", "CartPole-v1"),
        ("evenroll collect Acr", "Acrobot-v1"),
        ("evenroll evaluate gridworld --sampler pr", "props"),
        ("evenroll evaluate gridworld --estimator fqe-net-s", "fqe-net-small"),
        ("evenroll compare gridworld --method auto/sc", "auto/score"),
    ],
)
def test_the_shell_is_offered_it(words: str, offered: str) -> None:
    environment = {**os.environ, "_EVENROLL_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": words}
    code = "import sys; sys.argv = ['evenroll']; from evenroll.cli.app import app; app(prog_name='evenroll')"
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert offered in run.stdout, run.stderr


def test_the_answer_to_a_shell_is_all_that_is_printed() -> None:
    environment = {**os.environ, "_EVENROLL_COMPLETE": "complete_bash", "COMP_WORDS": "evenroll ev", "COMP_CWORD": "1"}
    run = subprocess.run([sys.executable, "-m", "evenroll"], env=environment, capture_output=True, text=True)
    assert (run.stdout.split(), run.stderr, run.returncode) == (["evaluate"], "", 0)
