"""What README and documentation tell people to type works: Python runs, command lines are accepted, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer

import evenroll
from evenroll.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# What a page writes in capitals stands for a value of one's own.
VALUES = {"DOMAIN": "gridworld", "SAMPLER": "os", "ESTIMATOR": "mc", "N": "8", "W": "0.5", "R": "8"}
names = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)


def commands(path: Path) -> list[list[str]]:
    """The words of every `evenroll …` line in a block of the shell or an indented one; a backslash joins two lines."""
    text = path.read_text(encoding="utf-8")
    shell = "\n".join([*blocks(path, "sh"), *re.findall(r"^    (evenroll .*)$", text, re.M)])
    lines = re.findall(r"^evenroll .*$", shell.replace("\\\n", " "), re.M)
    return [[VALUES.get(word, word) for word in shlex.split(line, comments=True)[1:]] for line in lines]


def test_readme_python(capsys: pytest.CaptureFixture[str]) -> None:
    """Every block, in order; `model` and what one's own environment would give are the only things provided."""
    domain = evenroll.get_domain("cartpole")
    observation = np.zeros(4)
    namespace = {
        "model": domain.policy(),
        "policy": domain.policy(),
        "observation": observation,
        "next_observation": observation,
        "reward": 1.0,
        "terminated": True,
        "truncated": False,
    }
    found = blocks(ROOT / "README.md", "python")
    assert len(found) == 3
    for block in found:
        exec(compile(block, "README.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert "500 episodes" in printed
    ratio = namespace["study"].curves[2].mse / namespace["study"].curves[0].mse
    assert ratio[-1] < 0.5  # measured 0.1; on-policy sampling would be 1
    assert namespace["result"].episodes == 100


@names
def test_python_of_the_pages_compiles(path: Path) -> None:
    for block in blocks(path, "python"):
        compile(block, path.name, "exec")
        for name in re.findall(r"\bevenroll\.(\w+)\(", block):
            assert hasattr(evenroll, name), name


@names
def test_command_lines_are_accepted(path: Path) -> None:
    """The parser takes each: its command, its options and the kind of their values. (Nothing is run.)"""
    group = typer.main.get_command(app)
    for words in commands(path):
        if words[0].startswith("--"):
            continue
        command = group.commands[words[0]]
        given = [word for word in words[1:] if word != "--list"]
        command.make_context(words[0], given, resilient_parsing=False)


def test_commands_were_found() -> None:
    """The search for them sees both ways to write one."""
    assert len(commands(ROOT / "README.md")) == 16
    expected = ["coverage", "gridworld", "--sampler", "os", "--estimator", "mc", "--half-width", "0.5", "--repeats", "8"]
    assert expected in commands(ROOT / "docs" / "experiments-intervals.md")


def test_readme_links_and_targets() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^    make (\w+)", text, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target
