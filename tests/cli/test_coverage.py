"""`evenroll coverage` for domains and environments."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from evenroll.cli.app import app
from evenroll.cli.coverage import HEADER
from evenroll.errors import SpecError

WIDE = {"COLUMNS": "160", "TERM": "dumb", "NO_COLOR": "1"}


def test_coverage_command(tmp_path):
    target = tmp_path / "coverage.json"
    words = ["coverage", "bandit", "--episodes", "64", "--episodes", "16", "--repeats", "20", "--json", str(target)]
    shown = CliRunner().invoke(app, words, env=WIDE)
    assert shown.exit_code == 0
    found = json.loads(target.read_text())
    wanted = {"coverage", "coverage_low", "coverage_high", "half_width", "oracle_ratio", "iid_ratio", "fallback", "repeats"}
    assert wanted <= found.keys()
    assert found["repeats"] == 20
    assert found["coverage_low"] <= found["coverage"] <= found["coverage_high"]
    assert [(row["episodes"], row["estimator"]) for row in found["rows"]] == [
        (16, "score"), (16, "mc"), (64, "score"), (64, "mc"),
    ]  # fmt: skip
    assert all(name in shown.output for name in HEADER[2:])  # a table that is too wide is a list without the first two
    assert "true value" in shown.output


def test_coverage_of_an_environment(tmp_path, monkeypatch):
    (tmp_path / "coins.py").write_text("def policy(observation):\n    return [0.5, 0.5]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ["coverage", "CartPole-v1", "--policy", "coins:policy", "--episodes", "8", "--repeats", "3", "--truth", "30"]
    shown = CliRunner().invoke(app, [*words, "--horizon", "15", "--json", "-"], env=WIDE)
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found["domain"] == "CartPole-v1"
    assert found["value_se"] > 0.0
    stopped = CliRunner().invoke(app, [*words, "--horizon", "15", "--half-width", "50%"], env=WIDE)
    assert "stopped on average" in stopped.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["CartPole-v1"], "give the policy to evaluate, --policy"),
        (["cartpol", "--repeats", "3"], "did you mean cartpole"),
        (["bandit", "--normalize", "x.pkl"], "--normalize is for environments"),
    ],
)
def test_mistakes_are_named(words, why):
    result = CliRunner().invoke(app, ["coverage", *words])
    assert isinstance(result.exception, SpecError)
    assert why in str(result.exception)
