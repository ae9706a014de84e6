"""What all commands print through: JSON, numbers, one line for what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evenroll.cli.console import emit, refuse, significant, writable
from evenroll.errors import EvenrollError


def test_json_goes_where_it_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    emit({"a": 1.5}, None)
    assert capsys.readouterr().out == ""
    emit({"a": 1.5}, "-")
    assert json.loads(capsys.readouterr().out) == {"a": 1.5}
    emit({"a": 1.5}, str(tmp_path / "a.json"))
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": 1.5}
    with pytest.raises(ValueError, match="JSON"):
        emit({"a": float("nan")}, "-")


def test_places_that_cannot_be_written_are_refused_beforehand(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("before")
    writable(None, "-", tmp_path / "new", tmp_path / "there")
    assert (tmp_path / "there").read_text() == "before"
    assert not (tmp_path / "new").exists()
    for bad, text in (
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "new", "there is no directory no"),
        ("/dev/full", "regular"),
    ):
        with pytest.raises(EvenrollError, match=text):
            writable(bad)


def test_numbers_have_three_digits_and_nothing_is_a_dash() -> None:
    assert [significant(x) for x in (1.23456, 0.0001234, None, float("nan"))] == ["1.23", "0.000123", "–", "–"]
    assert significant(1.23456, 5) == "1.2346"


def test_a_refusal_is_one_line_that_cannot_play_with_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        refuse("no\n\x1b[2Jsuch \x07file")
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "error: no [2Jsuch file\n"


def test_a_reader_that_leaves_costs_nothing(tmp_path: Path) -> None:
    """`evenroll … | head -0`: nothing more is printed, files are written, and nobody is blamed. Help ends at once."""
    for words, code in ((["evaluate", "bandit", "--episodes", "50", "--json", "r.json"], 0), (["evaluate", "--help"], 141)):
        child = subprocess.Popen(
            [sys.executable, "-m", "evenroll", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait() == code
        child.stderr.close()
    assert json.loads((tmp_path / "r.json").read_text())["episodes"] == 50
