"""The leaderboard: its arithmetic, and that anyone gets the same table."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.study import compare, runner
from evenroll.study.blocks import Block
from evenroll.study.leaderboard import BoardRow, _row, _short, cells, leaderboard, markdown, matrix, write
from evenroll.study.store import Store

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


def test_trials_that_are_kept_give_the_same_board_and_are_not_run_again(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store changes no number; a second run, with more trials, computes what is missing only."""
    methods, steps = ("os/mc", "os/fqe", "ros/mc", "init+ros/mc"), (8, 32)
    plain = leaderboard(["gridworld"], methods=methods, budgets=steps, trials=60, seed=3)
    kept = leaderboard(["gridworld"], methods=methods, budgets=steps, trials=60, seed=3, store=Store(tmp_path))
    told: list[tuple[int, int]] = []
    computed: list[Block] = []
    quiet = runner.compute_together
    monkeypatch.setattr(runner, "compute_together", lambda blocks: (computed.extend(blocks), quiet(blocks))[1])
    more = leaderboard(
        ["gridworld"], methods=methods, budgets=steps, trials=100, seed=3, store=Store(tmp_path),
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert told[-1] == (300, 300)  # os, ros and init+ros
    assert {(block.first, block.count) for block in computed} == {(50, 50)}  # trials 50 to 59 stood in a block of ten
    whole = leaderboard(["gridworld"], methods=methods, budgets=steps, trials=100, seed=3)
    for (a,), (b,) in ((plain, kept), (whole, more)):
        for x, y in zip(a.rows, b.rows, strict=True):
            assert (x.method, x.runaway, x.missing.tolist()) == (y.method, y.runaway, y.missing.tolist())
            np.testing.assert_array_equal((x.mse, x.mse_se, x.bias), (y.mse, y.mse_se, y.bias))
            assert y.microseconds > 0.0
    mine = leaderboard(
        [dataclasses.replace(get_domain("gridworld"), horizon=50)], methods=("os/mc",), budgets=(4,), trials=3
    )
    assert mine[0].trials == 3


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


def test_a_row_by_hand() -> None:
    """Trials without an estimate enter no average; a single one has no standard error."""
    errors = np.array([[0.1, np.nan, np.nan], [-0.3, np.nan, np.nan], [0.2, 0.4, np.nan]])
    row = _row("os/mc", errors, np.array([0.07, 0.02, 0.01]), 2, 3.0)
    np.testing.assert_allclose(row.mse, [0.14 / 3, 0.16, np.nan])
    np.testing.assert_allclose(row.mse_se, [np.std([0.01, 0.09, 0.04], ddof=1) / 3**0.5, np.nan, np.nan])
    np.testing.assert_allclose(row.bias, [0.0, 0.4, np.nan], atol=1e-15)
    assert row.missing.tolist() == [0, 2, 3]
    np.testing.assert_allclose(row.ratio, [2 / 3, 8.0, np.nan])
    by = np.exp(1.96 * row.mse_se[0] / row.mse[0])
    np.testing.assert_allclose([row.bound(-1)[0], row.bound(1)[0]], [2 / 3 / by, 2 / 3 * by])
    told = row.to_json()
    assert told["times_fewer_steps"] == [pytest.approx(1.5), pytest.approx(0.125), None]
    assert (told["runaway"], told["missing"], told["microseconds_per_step"]) == (2, [0, 2, 3], 3.0)


def test_a_row_in_words_by_hand() -> None:
    values = {"mse": [0.04, 0.01], "mse_se": [0.004, 0.001], "theory": [0.04, 0.02], "bias": [0.0, -0.05], "missing": [0, 0]}
    row = BoardRow("os/mc", runaway=0, microseconds=12.34, **{name: np.array(x) for name, x in values.items()})
    assert cells(row) == ["os/mc", "1 [0.82, 1.2]", "0.5 [0.41, 0.61]", "2 [1.6, 2.4]", "-0.50", "12"]
    away = dataclasses.replace(row, runaway=1, missing=np.array([0, 3]))
    assert cells(away)[0] == "os/mc (ran away) (3 trials without an estimate)"
    exact = dataclasses.replace(row, mse=np.zeros(2), mse_se=np.zeros(2))
    assert cells(exact)[-3:] == ["–", "–", "12"]


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (np.nan, "–"),
        (1e-7, "< 1e-06"),
        (1e-6, "1e-06"),
        (1e6, "1,000,000"),
        (2e6, "> 1,000,000"),
        (123.4, "123"),
        (0.456, "0.46"),
    ],
)
def test_ratios_as_text(x: float, text: str) -> None:
    assert _short(x) == text


def test_the_best_at_the_largest_budget_comes_first_and_those_without_an_estimate_last() -> None:
    (board,) = leaderboard(["gridworld"], methods=("os/mc", "os/fqe", "ros/mc"), budgets=(8, 64), trials=4, seed=1)
    last = [row.mse[-1] for row in board.rows]
    assert last == sorted(last)
    assert board.steps == tuple(int(board.truth.mean_length * b) for b in (8, 64))
    n = np.array(board.steps) / board.truth.mean_length
    for row in board.rows:
        np.testing.assert_allclose(row.theory, board.truth.variance / (n * board.truth.value**2))
    told = board.to_json()
    assert (told["trials"], told["seed"], told["budgets"], told["value_se"]) == (4, 1, [8, 64], 0.0)
    assert (told["value"], told["variance"]) == (board.truth.value, board.truth.variance)
