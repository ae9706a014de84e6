"""What help and documentation say of defaults is what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenroll.cli.app import app
from evenroll.cli.completion import ESTIMATORS, SAMPLERS
from evenroll.cli.options import DOMAIN_HELP, SAMPLER_HELP
from evenroll.domains.registration import DOMAINS
from evenroll.evaluation.evaluate import DEFAULT_EPISODES, Budget

WIDE = {"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}
PAGE = Path(__file__).parents[2] / "docs" / "evaluate.md"


def said(command: str, option: str) -> str:
    """What --help says of an option."""
    shown = CliRunner().invoke(app, [command, "--help"], env=WIDE).output
    return next(line for line in shown.splitlines() if f"{option} " in line)


def test_help_and_page_agree_with_the_program() -> None:
    assert Budget.of(None, None, None).episodes == DEFAULT_EPISODES == 100
    assert f"(default {DEFAULT_EPISODES})" in said("evaluate", "--episodes")
    assert f"[default: {DEFAULT_EPISODES}]" in said("collect", "--episodes")
    assert f"(default {DEFAULT_EPISODES})" in said("difference", "--episodes")
    assert "the domain's, 1 for ENV" in said("evaluate", "--gamma")
    text = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8"))
    assert f"{DEFAULT_EPISODES} episodes are collected unless you say otherwise" in text
    assert "γ is the domain’s own where one is built in, and 1 in an environment" in text


@pytest.mark.parametrize("command", ["compare", "evaluate", "value", "train"])
def test_the_domains_are_named(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env=WIDE).output
    assert all(name in shown for name in DOMAINS)
    assert all(name in DOMAIN_HELP for name in DOMAINS)


def test_samplers_and_estimators_in_the_help_exist() -> None:
    listed = re.findall(r"[a-z][a-z+-]*", said("evaluate", "--estimator").split("ESTIMATOR")[1].partition("[default")[0])
    assert set(listed) - {"or"} <= set(ESTIMATORS)
    named = set(re.findall(r"\b(auto|os|ros|off|bpg|roa|props)\b", SAMPLER_HELP))
    assert named <= set(SAMPLERS)
    assert len(named) == 7
