"""Ratios of numbers with errors, and what they decide."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evenroll.study.ratios import FAILS, HOLDS, UNDECIDED, Number, Ratio, above, below, together


def test_ratios_carry_both_errors() -> None:
    ratio = Number(2.0, 0.2).over(Number(1.0, 0.1))
    assert ratio.value == 2.0
    assert np.log(ratio.high / ratio.value) == pytest.approx(1.96 * np.hypot(0.1, 0.1))
    assert np.isnan(Number(0.0, 0.0).over(Number(1.0, 0.1)).value)


# Each verdict is about the interval as a whole; the value alone decides nothing.
@pytest.mark.parametrize(
    ("ratio", "is_below", "is_above"),
    [
        (Ratio(0.5, 0.4, 0.6), HOLDS, FAILS),
        (Ratio(0.97, 0.95, 0.99), HOLDS, FAILS),
        (Ratio(0.8, 0.6, 1.1), UNDECIDED, UNDECIDED),
        (Ratio(0.9, 0.81, 1.0), UNDECIDED, UNDECIDED),
        (Ratio(1.0, 0.9, 1.1), UNDECIDED, UNDECIDED),
        (Ratio(1.1, 1.0, 1.21), UNDECIDED, UNDECIDED),
        (Ratio(1.2, 0.9, 1.6), UNDECIDED, UNDECIDED),
        (Ratio(1.03, 1.01, 1.05), FAILS, HOLDS),
        (Ratio(2.0, 1.5, 2.7), FAILS, HOLDS),
        (Ratio(math.nan, math.nan, math.nan), UNDECIDED, UNDECIDED),
    ],
)
def test_a_ratio_decides_by_its_interval(ratio: Ratio, is_below: str, is_above: str) -> None:
    assert (below(ratio), above(ratio)) == (is_below, is_above)
    ten = Ratio(10 * ratio.value, 10 * ratio.low, 10 * ratio.high)
    assert (below(ten, 10.0), above(ten, 10.0)) == (is_below, is_above)


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([], UNDECIDED),
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, UNDECIDED], UNDECIDED),
        ([UNDECIDED, FAILS, HOLDS], FAILS),
        ([FAILS], FAILS),
    ],
)
def test_several_verdicts_together(verdicts: list[str], verdict: str) -> None:
    assert together(verdicts) == verdict


def test_numbers_and_ratios_are_shown_with_their_errors() -> None:
    assert str(Number(0.0123, 0.001)) == "1.23e-02 ± 1.0e-03"
    assert str(Number(math.nan, math.nan)) == str(Number(0.0, 0.0).over(Number(1.0, 0.0))) == "–"
    assert str(Ratio(0.5, 0.25, 1.0)) == "0.5 [0.25, 1]"
    assert str(Number(2.0, 0.1).over(Number(2.0, 0.1))) == "1"
