"""`evenroll reproduce`: what it leaves behind, its progress, its refusals, and that it can be interrupted."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenroll.cli.app import app
from evenroll.errors import SpecError
from evenroll.study.experiments import FULL, METHODS, QUICK, Roster, targets
from evenroll.study.ratios import FAILS
from evenroll.study.reproduce import choose, reproduce
from tests.study.conftest import RUN, SMALL


def test_unknown_targets_are_named() -> None:
    with pytest.raises(SpecError, match="did you mean fig12"):
        choose(["fig122"], QUICK, Roster())


def test_a_run_leaves_every_figure_and_a_second_one_the_same_bytes(run: Path, tmp_path: Path) -> None:
    files = [p for p in run.iterdir() if p.suffix in (".png", ".pdf", ".md", ".html")]
    assert {f"{name}.png" for name in RUN if not name.startswith("table")} <= {p.name for p in files}
    assert {"table3.md", "table4.md", "report.html", "fig2.pdf"} <= {p.name for p in files}
    pages = []
    for directory in (tmp_path / "a", tmp_path / "b"):
        shutil.copytree(run / "store", directory / "store")
        outcome = reproduce(["fig2", "fig5", "table3"], directory, scale=SMALL, roster=Roster())
        assert outcome.computed == 0
        assert outcome.read > 0
        for name in ("fig2.png", "fig2.pdf", "fig5.png", "table3.md"):
            assert (directory / name).read_bytes() == (run / name).read_bytes(), name
        pages.append((directory / "report.html").read_bytes())
    assert pages[0] == pages[1]


def test_progress_ends_at_one_and_never_goes_back(tmp_path: Path) -> None:
    seen = []
    reproduce(["fig1", "table3"], tmp_path, scale=SMALL.limited(2, 2.0), roster=Roster(("gridworld",), METHODS[:3]),
              progress=seen.append)  # fmt: skip
    whole = [p.whole for p in seen]
    assert whole == sorted(whole)
    assert whole[-1] == pytest.approx(1.0)
    assert {p.target for p in seen} == {"fig1", "table3"}


def test_networks_are_fitted_without_torch(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    scale = replace(SMALL.limited(2, 4.0), fqe_trials=2)
    outcome = reproduce(["fig14"], tmp_path, scale=scale, roster=Roster(("bandit",), METHODS[:1]))
    assert outcome.computed == 2  # the small network and the closed form


def test_command_line(run: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    rows = runner.invoke(app, ["results", str(run), "--json", "-"])
    assert json.loads(rows.output)["blocks"] == len(list(run.glob("store/??/*.parquet")))
    judged = runner.invoke(app, ["reproduce", "theory", "--out", str(tmp_path / "theory"), "--json", "-"])
    assert [c["verdict"] for c in json.loads(judged.output)["claims"]].count(FAILS) == 1
    listed = runner.invoke(app, ["reproduce", "--list"])
    assert listed.exit_code == 0
    assert "table3" in listed.output
    shown = runner.invoke(app, ["results", str(run), "--only", "bandit", "--export", str(tmp_path / "all.csv")])
    assert shown.exit_code == 0, shown.output
    rows = (tmp_path / "all.csv").read_text().splitlines()
    assert rows[0].replace('"', "").split(",")[:2] == ["domain", "method"]
    assert len(rows) > 100
    for kind in ("json", "parquet"):
        assert (
            runner.invoke(app, ["results", str(run), "--only", "os", "--export", str(tmp_path / f"x.{kind}")]).exit_code == 0
        )
    assert len(json.loads((tmp_path / "x.json").read_text())["rows"]) > 0
    with pytest.raises(Exception, match=r"\.csv, \.json or \.parquet"):
        runner.invoke(app, ["results", str(run), "--export", str(tmp_path / "x.txt")], catch_exceptions=False)
    with pytest.raises(Exception, match="no results store"):
        runner.invoke(app, ["results", str(tmp_path / "nowhere")], catch_exceptions=False)
    with pytest.raises(SpecError, match="say what to reproduce"):
        runner.invoke(app, ["reproduce"], catch_exceptions=False)


def test_deciding_on_the_command_line(tmp_path: Path) -> None:
    """A run that may add nothing names what is left and how to go on; a time limit alone is refused in one line."""
    runner, where = CliRunner(), ["reproduce", "fig12", "--trials", "8", "--budget", "4", "--out", str(tmp_path)]
    shown = runner.invoke(app, [*where, "--decide", "--minutes", "0"])
    assert shown.exit_code == 0, shown.output
    assert "Left undecided by the time limit: " in shown.output
    assert "the time limit of 0 minutes came first: the same command goes on from here" in shown.output
    told = json.loads(runner.invoke(app, [*where, "--decide", "--minutes", "0", "--json", "-"]).output)
    assert told["deciding"] | {"seconds": 0.0} == {
        "minutes": 0.0, "looks": 0, "trials_added": 0, "seconds": 0.0, "out_of_time": True,
    }  # fmt: skip
    assert any("note" in claim for claim in told["claims"])
    with pytest.raises(SpecError, match="--minutes is the time limit of --decide"):
        runner.invoke(app, [*where, "--minutes", "3"], catch_exceptions=False)
    for wrong in ("-1", "nan", "inf"):
        with pytest.raises(SpecError, match="--minutes must be a number of minutes"):
            runner.invoke(app, [*where, "--decide", "--minutes", wrong], catch_exceptions=False)
    help_text = runner.invoke(app, ["reproduce", "--help"], env={"COLUMNS": "200"}).output
    assert "evenroll reproduce all --decide --minutes 60" in help_text


def test_an_interrupted_run_is_consistent_and_goes_on(tmp_path: Path) -> None:
    """SIGINT as Ctrl-C sends it: exit code 130, one line, whole files only; the same command then finishes."""
    command = [
        sys.executable,
        "-m",
        "evenroll",
        "reproduce",
        "fig12",
        "--out",
        str(tmp_path),
        "--trials",
        "30",
        "--budget",
        "100",
    ]

    def as_in_a_terminal() -> None:  # a shell's background jobs ignore SIGINT, and their children with them
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=as_in_a_terminal
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("store/??/*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    said = [line for line in errors.splitlines() if line and not line.startswith("compiling for this processor")]
    assert said == ["interrupted: the same command goes on where this one was"]
    there = list(tmp_path.glob("store/??/*.parquet"))
    scale = FULL.limited(30, 100.0)
    wanted = sum(len(work.blocks(n)) for work, n in targets(scale)["fig12"].wanted().items())
    assert 0 < len(there) < wanted
    assert not [p for p in tmp_path.rglob("*") if p.name.startswith(".")]
    outcome = reproduce(["fig12"], tmp_path, scale=scale, roster=Roster())
    assert (outcome.read, outcome.computed) == (len(there), wanted - len(there))
