"""`evenroll plan` on the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from evenroll.cli.app import app
from evenroll.errors import SpecError


def test_a_plan_is_printed_and_written(tmp_path):
    target = tmp_path / "plan.json"
    shown = CliRunner().invoke(app, ["plan", "cartpole", "--half-width", "2%", "--pilot", "16", "--json", str(target)])
    assert shown.exit_code == 0, shown.output
    assert "evenroll needs about" in shown.output
    assert "on-policy" in shown.output
    found = json.loads(target.read_text())
    assert found["evenroll"]["low"] < found["evenroll"]["episodes"] < found["evenroll"]["high"]
    assert found["on_policy"]["episodes"] > found["evenroll"]["episodes"]
    assert found["episodes"] == 16


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["CartPole-v1", "--half-width", "1"], "give the policy to evaluate, --policy"),
        (["bandit", "--half-width", "1", "--envs", "2"], "are for environments"),
        (["bandit", "--half-width", "none"], "half-width must"),
    ],
)
def test_mistakes_are_named(words, why):
    result = CliRunner().invoke(app, ["plan", *words])
    assert isinstance(result.exception, SpecError)
    assert why in str(result.exception)
