"""Axes of figures: numbers end at the right pixels, and what is beside them is round and legible."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evenroll.evaluation.page_axes import Axis, Frame, limits, log_ticks, picture, round_ticks, runs
from evenroll.text.page import Html


def test_an_axis_runs_from_its_start_to_its_end() -> None:
    axis = Axis(-2.0, 6.0, 100.0, 20.0)
    assert [axis.at(x) for x in (-2.0, 2.0, 6.0)] == [100.0, 60.0, 20.0]
    assert Axis(10.0, 1000.0, 0.0, 80.0, log=True).at(100.0) == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0.0, 10.0, ["0", "2", "4", "6", "8", "10"]),
        (-1.02, 0.98, ["−1.0", "−0.5", "0.0", "0.5"]),
        (12345.651, 12345.689, ["12,345.66", "12,345.67", "12,345.68"]),
        (0.0, 2.5e9, ["0", "5e+08", "1e+09", "1.5e+09", "2e+09", "2.5e+09"]),
        (0.0, 3e-9, ["0", "1e−09", "2e−09", "3e−09"]),
    ],
)
def test_ticks_are_round_and_told_apart(low: float, high: float, texts: list[str]) -> None:
    found = round_ticks(low, high, 5)
    assert [text for _, text in found] == texts
    assert all(low - 1e-9 <= value <= high * (1 + 1e-9) for value, _ in found)
    for value, text in found:
        assert float(text.replace("−", "-").replace(",", "")) == pytest.approx(value, abs=1e-9 * (high - low))


@pytest.mark.parametrize("size", [1e-200, 1e-5, 1.0, 1e9, 1e200])
def test_ticks_of_any_size_are_few_and_different(size: float) -> None:
    rng = np.random.default_rng(1)
    for low, width in zip(rng.normal(size=50), rng.uniform(0.1, 5.0, 50), strict=True):
        texts = [text for _, text in round_ticks(size * low, size * (low + width), 5)]
        assert 2 <= len(texts) <= 7
        assert len(set(texts)) == len(texts)


def test_ticks_of_counts_are_both_ends_and_powers_of_ten() -> None:
    assert [text for _, text in log_ticks(10.0, 30_000.0, 5)] == ["10", "100", "1,000", "30,000"]  # 10,000 is too close
    assert [text for _, text in log_ticks(10.0, 11.0, 5)] == ["10", "11"]
    assert [text for _, text in log_ticks(10.0, 1e7, 3)] == ["10", "1,000", "100,000", "10,000,000"]


def test_limits_have_air_and_equal_values_stand_in_the_middle() -> None:
    assert limits(np.array([0.0, 10.0, np.nan]), 5.0) == (-0.5, 10.5)
    for value in (0.0, 3.0, -1e12):
        found = limits(np.full(4, value))
        assert found is not None
        assert found[0] < value < found[1]
        assert sum(found) / 2 == pytest.approx(value)


def test_what_no_picture_can_show_has_no_limits() -> None:
    assert limits(np.array([np.nan])) is None
    assert limits(np.array([-1.7e308, 1.7e308])) is None
    assert limits(np.array([0.0, 1e-310])) is None


def test_lines_are_broken_where_a_number_is_missing() -> None:
    nan = math.nan
    assert runs([1, 2, 3, 4], [5.0, nan, 7.0, 8.0]) == [[(1.0, 5.0)], [(3.0, 7.0), (4.0, 8.0)]]
    frame = Frame.of(300, (0.0, 4.0), (0.0, 9.0), ("x", "y"))
    assert frame.band([1, 2, 3, 4], [1.0, nan, 1.0, 1.0], [2.0, nan, 2.0, 2.0], "band").count("<polygon") == 2
    assert frame.line([1, 2], [nan, nan], "estimate") == ""
    assert frame.dots([1, 2], [nan, 1.0], "dot", 2.0).count("<circle") == 1


def test_counts_have_whole_numbers_beside_them() -> None:
    frame = Frame.of(300, (0.0, 4.0), (0.0, 1.08), ("x", "episodes"), whole=True)
    assert ">1</text>" in frame.marks
    assert "0.5" not in frame.marks.replace('0.5"', "")


def test_a_picture_is_drawn_wide_and_narrow_and_says_what_it_shows() -> None:
    drawn = picture(lambda width: (10, Html(f"<rect width='{width}'/>")), "a < b", "c & d")
    assert drawn.count("<title>a &lt; b</title><desc>c &amp; d</desc>") == 2
    assert drawn.count('role="img"') == 2
    assert 'class="wide"' in drawn
    assert 'class="narrow"' in drawn
