"""A comparison printed: the numbers are those of its curves, and what is missing is a dash."""

from __future__ import annotations

import numpy as np

import evenroll
from evenroll.study.comparison_table import header_and_rows, plain_table, remarks
from evenroll.study.curve import Curve

FIRST = Curve("os/mc", np.array([[np.nan, 1.1, 1.2], [np.nan, 0.9, 0.8]]))
SECOND = Curve("ros/mc", np.array([[np.nan, np.nan, 1.1], [np.nan, np.nan, 1.1]]), runaway=1)


def test_rows_by_hand() -> None:
    """Squared errors of 0.04 and 0.04; of 0.01 and 0.01, which is a quarter; a bias of 0 and of 0.1."""
    header, rows = header_and_rows((0, 10, 20), (FIRST, SECOND))
    assert header == ["method", "20 steps", "vs first", "bias"]
    assert rows[0] == ["os/mc", "4.00e-02 ± 0 %", "× 1", "+0.0e+00"]
    assert rows[1] == ["ros/mc", "1.00e-02 ± 0 %", "× 0.25", "+1.0e-01"]
    header, rows = header_and_rows((5, 10, 20), (FIRST, SECOND))
    assert header[1:3] == ["10 steps", "20 steps"]
    assert rows[1][1] == "–"
    assert remarks((FIRST, SECOND)) == ["ros/mc runs away from the policy in 1 of 2 trials"]


def test_columns_are_aligned() -> None:
    lines = plain_table(["a", "number"], [["long name", "1"], ["b", "22"]]).splitlines()
    assert lines == ["a          number", "─────────────────", "long name       1", "b              22"]


def test_print_is_the_table() -> None:
    result = evenroll.compare("gridworld", ["os/mc", "bpg"], trials=5, budget=8)
    title, header, _, first, second, weights, last = str(result).splitlines()
    assert title == "gridworld: relative MSE ± 1 s.e., 5 trials"
    assert header.split()[:2] == ["method", "32"]
    assert f"{result.curves[0].mse[-1]:.2e}" in first
    assert second.startswith("bpg:batch=10,step_size=0.01/ois")
    assert "effective sample size" in weights
    assert last.startswith("v(π) = 4.39135 (exact)")
