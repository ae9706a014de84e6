"""What is printed of an interrupted run, also when the terminal is gone or the disk is full."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer

import evenroll
from evenroll.cli import telling
from evenroll.errors import Interrupted
from evenroll.evaluation.noise import NoiseBudget
from tests.helpers import full_disk, trial

FOUND = evenroll.evaluate("bandit", sampler="os", episodes=40)


def ended(stop: Interrupted, target: str | None, said: str = "written to x", command: str | None = "evenroll …") -> int:
    with pytest.raises(typer.Exit) as left:
        telling.tell_interrupted(stop, target, said, command)
    return left.value.exit_code


def test_data_first_then_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = []
    stop = Interrupted("", find=lambda: order.append(capsys.readouterr().err) or FOUND)
    assert ended(stop, str(tmp_path / "r.json")) == 130
    assert "written to x" in order[0]
    assert "go on with: evenroll …" in order[0]  # said before the result is computed, which may take a while
    assert "40 episodes" in capsys.readouterr().out
    assert json.loads((tmp_path / "r.json").read_text())["episodes"] == 40


def test_the_report_of_an_interrupted_run_says_so(tmp_path: Path) -> None:
    found = replace(FOUND, interrupted=True)
    with pytest.raises(typer.Exit):
        telling.tell_interrupted(Interrupted("", find=lambda: found), None, "", None, tmp_path / "r.html")
    assert "Collecting was interrupted" in (tmp_path / "r.html").read_text()
    with pytest.raises(typer.Exit):
        telling.tell_interrupted(Interrupted(""), None, "", None, tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()  # no result, no report


def test_too_few_episodes_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(Interrupted(""), "-", said="", command=None) == 130
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"interrupted": True, "value": None}
    assert shown.err == "interrupted before an episode had finished\n"


def test_a_second_interrupt_does_without_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    def find() -> None:
        raise KeyboardInterrupt

    assert ended(Interrupted("", find=find), None) == 130
    assert "interrupted again" in capsys.readouterr().err


def test_a_full_disk_does_not_keep_it_from_being_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with full_disk():
        assert ended(Interrupted("", find=lambda: FOUND), str(tmp_path / "r.json")) == 130
    shown = capsys.readouterr()
    assert "40 episodes" in shown.out
    assert "cannot write" in shown.err


def test_a_terminal_that_is_gone_does_not_keep_it_from_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*words: object, **options: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(telling.out, "print", gone)
    monkeypatch.setattr(telling.err, "print", gone)
    assert ended(Interrupted("", find=lambda: FOUND), str(tmp_path / "r.json")) == 130
    assert json.loads((tmp_path / "r.json").read_text())["value"] == FOUND.value


def test_the_noise_budget_is_a_strip_with_its_key(capsys):
    telling.show_noise(NoiseBudget(0.5, 0.05, 0.2, 0.04, 0.3, 0.1, 0.0, 0.2, 0.1))
    strip, key = capsys.readouterr().out.splitlines()
    assert (strip.count("█"), strip.count("▓"), strip.count("▒"), strip.count("·")) == (23, 10, 5, 10)
    assert "█ choices, taken out 50%, ▓ starts, taken out 20%, ▒ choices, left 10%, · environment 20%" in key


def test_much_data_is_said_to_take_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    """What was collected is written and looked at after Ctrl-C, which takes seconds for a million steps. That the signal was
    heard is said before; of little data nothing is said that the next line would say anyway."""
    little, much = trial("gridworld", episodes=100), trial("gridworld", episodes=40_000)
    telling.tell_stopping(little)
    assert capsys.readouterr().err == ""
    telling.tell_stopping(little, much)
    assert capsys.readouterr().err.startswith("interrupted: 40,100 episodes are being kept, then looked at; a second Ctrl-C")
