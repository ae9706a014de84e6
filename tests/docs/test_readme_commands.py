"""Every command line of the README runs, and says and leaves what it should, with policies that are made for it.

Where the README's size would take minutes a smaller one is asked for (`SMALLER`); `make readme` runs them as they stand.
`bench` is run there only: it times compilers and loops, and even `--quick` took 18 s of the processor's time.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.helpers import command
from tools.readme import SAYS, SMALLER, demo, lines, make_policies, missing


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what the lines name."""
    pytest.importorskip("stable_baselines3")
    directory = tmp_path_factory.mktemp("readme")
    make_policies(directory)
    return directory


def run(line: str, directory: Path) -> None:
    words = shlex.split(line, comments=True)[1:]
    done = command(*words, *SMALLER.get(words[0], ()), cwd=directory)
    assert done.returncode == 0, done.stderr
    assert missing(line, done.stdout, directory) == []


@pytest.mark.parametrize("line", [line for line in lines() if "data.parquet" not in line and line.split()[1] != "bench"])
def test_a_command_line_runs(line: str, files: Path) -> None:
    run(line, files)


def test_data_that_was_collected_is_diagnosed(files: Path) -> None:
    collect, diagnose = (line for line in lines() if "data.parquet" in line)
    run(collect, files)
    run(diagnose, files)


@pytest.mark.parametrize("line", demo())
def test_a_command_of_make_demo_runs(line: str, tmp_path: Path) -> None:
    run(line, tmp_path)


def test_the_lines_are_found() -> None:
    """All of them, and one for every command that we say something of."""
    assert len(lines()) == 16
    assert len(demo()) == 3
    assert {line.split()[1] for line in lines()} == set(SAYS)
