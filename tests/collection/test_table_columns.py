"""Columns of a table: rows in any order are put in order by t, or refused; CSV is a table, too."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest

import evenroll
from evenroll.collection import table_columns
from evenroll.collection.table_columns import from_columns, in_order, read_csv
from evenroll.errors import DataError
from tests.helpers import COLUMNS, through_gymnasium

SMALL: dict[str, Any] = {
    "episode": [0, 0, 0, 1, 1], "t": [0, 1, 2, 0, 1], "action": [0, 1, 0, 1, 1], "reward": [1.0, 2.0, 4.0, 8.0, 16.0],
    "observation": [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [5.0, 0.0], [6.0, 0.0]],
    "terminated": [0, 0, 1, 0, 0], "truncated": [0, 0, 0, 0, 1],
}  # fmt: skip


def small(order: Any = slice(None), **changes: Any) -> dict[str, np.ndarray]:
    columns = SMALL | changes
    return {name: np.array(column)[order] for name, column in columns.items() if column is not None}


@pytest.mark.parametrize("order", [[2, 1, 0, 4, 3], [3, 4, 0, 1, 2], [4, 0, 3, 2, 1]])
def test_rows_in_any_order_are_put_in_order(order: list[int]) -> None:
    for gamma, returns in ((0.5, [3.0, 16.0]), (1.0, [7.0, 24.0])):
        data = from_columns(small(order), gamma)
        expected = from_columns(small(), gamma)
        shown = [1, 0] if order[0] == 3 else [0, 1]  # whole episodes keep their places
        np.testing.assert_array_equal(data.returns, np.array(returns)[shown])
        np.testing.assert_array_equal(data.terminated, expected.terminated[shown])
        firsts = np.append(0, data.ends[:-1])
        np.testing.assert_array_equal(data.observations[firsts, 0], np.array([0.0, 5.0])[shown])
        assert data.starts == 2


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"t": [0, 1, 1, 0, 1]}, "episode 0 has t = 1 twice"),
        ({"t": [0, 1, 3, 0, 1]}, "episode 0 has t = 1 and then t = 3"),
        ({"t": [0, 1, 2, 1, 2]}, "episode 1 does not begin with t = 0"),
        ({"t": [7, 8, 9, 7, 8]}, "begin with t = 7"),
        ({"t": [0.5, 1, 2, 0, 1]}, "t holds a number that is not whole"),
        ({"t": None, "episode": [0, 1, 0, 1, 1]}, "next to each other"),
        ({"t": None, "terminated": [1, 0, 0, 0, 0], "truncated": [0, 0, 0, 1, 0]}, "episode 0 goes on after its end"),
        ({"reward": None}, "column reward is missing"),
        ({"terminated": [0, 0, np.nan, 0, 0]}, "terminated lacks a number"),
        ({"reward": [1.0, np.inf, 0, 0, 0]}, "rewards holds a value that is not finite"),
    ],
)
def test_what_cannot_be_put_in_order_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(DataError, match=why):
        from_columns(small(**changes))


def test_steps_may_count_from_one_and_episodes_from_anywhere() -> None:
    data = from_columns(small(t=[1, 2, 3, 1, 2], episode=[-7, -7, -7, 10**12, 10**12]), 0.5)
    np.testing.assert_array_equal(data.returns, [3.0, 16.0])
    assert data.starts == 0
    assert len(in_order(np.zeros(0, int), np.zeros(0, int))) == 0


def test_a_reversed_parquet_file_is_read_right(tmp_path) -> None:
    """A data set whose rows somebody has shuffled: the discounts go where they belong."""
    import pyarrow.parquet as pq

    _, data, _ = through_gymnasium("cartpole", steps=200)
    evenroll.save_rollouts(data, tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet").replace_schema_metadata(None)
    pq.write_table(table.take(np.random.default_rng(0).permutation(table.num_rows)), tmp_path / "b.parquet")
    again = evenroll.load_rollouts(tmp_path / "b.parquet", gamma=data.gamma)
    for column in COLUMNS:
        np.testing.assert_allclose(getattr(again, column), getattr(data, column), rtol=1e-12, err_msg=column)


# ---- CSV -----------------------------------------------------------------------------------------------------------


def as_csv(columns: dict[str, np.ndarray], flags: bool = True) -> str:
    out = io.StringIO()
    names = [n for n in columns if n != "observation"] + [f"observation.{i}" for i in range(columns["observation"].shape[1])]
    writer = csv.writer(out)
    writer.writerow(names)
    for i in range(len(columns["episode"])):
        row = [columns[n][i] if n in columns else columns["observation"][i, int(n.split(".")[1])] for n in names]
        writer.writerow(
            [bool(x) if flags and n in ("terminated", "truncated") else x for n, x in zip(names, row, strict=True)]
        )
    return out.getvalue()


def test_a_csv_file_of_too_many_numbers_is_refused_before_one_is_read(monkeypatch) -> None:
    text = as_csv(small()).encode()
    numbers = text.count(b",") + text.count(b"\n")
    monkeypatch.setattr(table_columns, "CSV_NUMBERS", numbers)
    assert len(read_csv(text)["reward"]) == 5
    monkeypatch.setattr(table_columns, "CSV_NUMBERS", numbers - 1)
    monkeypatch.setattr(table_columns, "_numbers", lambda *_: pytest.fail("one was read"))
    with pytest.raises(DataError, match=r"more than .* numbers"):
        read_csv(text)


@pytest.mark.parametrize("flags", [True, False])
def test_csv_is_read(tmp_path, flags: bool) -> None:
    (tmp_path / "a.csv").write_text(as_csv(small([1, 0, 2, 4, 3]), flags))
    data, expected = evenroll.load_rollouts(tmp_path / "a.csv", 0.5), from_columns(small(), 0.5)
    for column in COLUMNS:
        if getattr(expected, column) is not None:
            np.testing.assert_array_equal(getattr(data, column), getattr(expected, column), err_msg=column)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1,2,3\n4,5,6\n", "first line must name"),
        ("", "first line must name"),
        ("episode,reward,reward\n", "first line must name"),
        ("episode,observation,action,reward\n0,1,2\n", "line 2 has 3 entries, not 4"),
        ("episode,observation,action,reward\n0,1,x,2\n", "line 2: could not convert"),
        ("episode,observation.0,observation.2,action,reward\n0,1,2,3,4\n", "observation.0, observation.1 and so on"),
        ("episode,observation,action,reward\n0,1,,2\n", "not finite"),
        ("episode,observation,action,reward\n,1,1,2\n", "episode lacks a number"),
        ('episode,observation,action,reward\n0,"[1, 2]",0,1\n', "could not convert"),
        ("episode\0,observation", "is missing|not a CSV"),
    ],
)
def test_bad_csv_is_refused(tmp_path, text: str, why: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=f"a.csv: .*({why})"):
        evenroll.load_rollouts(tmp_path / "a.csv")


def test_other_columns_of_a_csv_are_left_alone() -> None:
    found = read_csv(b"\xef\xbb\xbfepisode,observation,action,reward,note.x\n0,1,2,3,4\n")
    assert sorted(found) == ["action", "episode", "observation", "reward"]
