"""The leaderboard: its arithmetic, and that anyone gets the same table."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from evenroll.errors import SpecError
from evenroll.study import compare
from evenroll.study.leaderboard import cells, leaderboard, markdown, matrix, write

METHODS = ("os/mc", "os/fqe", "ros/mc", "init+ros/mc", "odi/pdis")


def test_errors_are_those_of_compare_whatever_the_number_of_workers() -> None:
    """Collecting once for several estimators changes no number; ratio and steps saved are inverse."""
    boards = [leaderboard(["gridworld"], methods=METHODS, budgets=(8, 32), trials=6, seed=3, workers=w) for w in (1, 3)]
    result = compare("gridworld", METHODS, trials=6, budget=32, seed=3)
    theory = result.on_policy_theory()
    for (board,) in boards:
        rows = {row.method: row for row in board.rows}
        for curve in result.curves:
            row = rows[curve.method]
            np.testing.assert_allclose(row.mse, curve.mse[[-3, -1]], rtol=1e-12)
            np.testing.assert_allclose(row.ratio, (curve.mse / theory)[[-3, -1]], rtol=1e-12)
            saved = row.to_json()["times_fewer_steps"]
            np.testing.assert_allclose(np.array(saved) * row.ratio, 1.0)
            assert (row.bound(-1) <= row.ratio).all()
            assert (row.ratio <= row.bound(1)).all()


def test_samplers_that_cannot_run_a_domain_are_left_out() -> None:
    boards = leaderboard(["cartpole"], methods=("os/mc", "odi/pdis"), budgets=(1,), trials=2)
    assert [row.method for row in boards[0].rows] == ["os/mc"]
    with pytest.raises(SpecError, match="none of the methods"):
        leaderboard(["cartpole"], methods=("odi/pdis",), budgets=(1,), trials=2)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(SpecError, match="at least 2"):
        leaderboard(["gridworld"], trials=1)
    with pytest.raises(SpecError, match="anew"):
        leaderboard(["bandit:redraw=true"], trials=2)


def test_files(tmp_path) -> None:
    """Table, numbers and picture; a trial without an estimate is missing, not 0; an exact estimate has no infinite gain."""
    boards = leaderboard(["gridworld", "bandit"], methods=("os/mc", "roa/mc", "os/fqe"), budgets=(1, 16), trials=12)
    paths = write(boards, tmp_path / "new")
    assert [path.name for path in paths] == ["leaderboard.md", "leaderboard.json", "leaderboard.png"]
    data = json.loads(paths[1].read_text())["boards"]
    assert [board["domain"] for board in data] == ["gridworld", "bandit"]
    assert any(row["missing"][0] > 0 for row in data[0]["methods"])
    text = paths[0].read_text()
    assert text == markdown(boards)
    never = dataclasses.replace(boards[0].rows[0], mse=np.full(2, np.nan), missing=np.full(2, 12))
    assert cells(never)[1:3] == ["–", "–"]
    assert "12 trials without" in cells(never)[0]
    assert "| – |" in matrix(dataclasses.replace(boards[0], rows=(never,)))[-1]
    assert "roa:rho=1/mc" in text
    assert "inf" not in text
    assert paths[2].stat().st_size > 10_000
