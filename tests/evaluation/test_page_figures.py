"""Figures of a page, read back from their pixels: every mark stands at its number."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import pytest

from evenroll.evaluation.page_figures import (
    FEW,
    MOST_DOTS,
    bins,
    intervals_picture,
    pairs_picture,
    running_picture,
    spread_picture,
)
from evenroll.evaluation.running_estimate import Running

N = np.array([10, 20, 40, 80])
VALUE = np.array([1.0, 3.0, 2.5, 2.0])
RUN = Running(N, VALUE, VALUE - 0.4, VALUE + 0.5, np.array([2.0, 1.5, 1.2, 1.0]))


def drawings(picture: str | None) -> list[Element]:
    assert picture is not None
    return list(ElementTree.fromstring(f"<div>{picture}</div>"))


def numbers_of(drawing: Element, axis: str, log: bool = False) -> Callable[[float], float]:
    """From pixels back to numbers, by what is written beside the axis."""
    side = "end" if axis == "y" else "middle"
    beside = [t for t in drawing.iter("text") if t.get("text-anchor") == side and _number(t.text or "") is not None]
    pixels = np.array([float(t.get(axis) or 0) - (4.0 if axis == "y" else 0.0) for t in beside])
    numbers = np.array([_number(t.text or "") for t in beside], dtype=float)
    slope, offset = np.polyfit(pixels, np.log(numbers) if log else numbers, 1)
    return lambda pixel: float(np.exp(slope * pixel + offset)) if log else float(slope * pixel + offset)


def _number(text: str) -> float | None:
    try:
        return float(text.replace("−", "-").replace(",", ""))
    except ValueError:
        return None


def points(drawing: Element, kind: str) -> np.ndarray:
    (found,) = (e for e in drawing.iter() if e.get("class") == kind)
    return np.array([[float(v) for v in pair.split(",")] for pair in (found.get("points") or "").split()])


def test_the_running_estimate_stands_at_its_numbers() -> None:
    for drawing in drawings(running_picture(RUN, "its 95 % interval")):
        across, up = numbers_of(drawing, "x", log=True), numbers_of(drawing, "y")
        line = points(drawing, "estimate")
        np.testing.assert_allclose([across(x) for x in line[:, 0]], N, rtol=0.02)
        np.testing.assert_allclose([up(y) for y in line[:, 1]], VALUE, atol=0.03)
        band = points(drawing, "band")
        np.testing.assert_allclose([up(y) for y in band[:4, 1]], VALUE - 0.4, atol=0.03)
        np.testing.assert_allclose([up(y) for y in band[:3:-1, 1]], VALUE + 0.5, atol=0.03)
        plain = points(drawing, "plain-band")  # that of on-policy episodes: as 1/√n around the last estimate
        assert up(plain[-1, 1]) - up(plain[0, 1]) == pytest.approx(2 * np.sqrt(80 / 10), rel=0.03)


def test_no_interval_is_no_band() -> None:
    nothing = np.full(4, np.nan)
    for drawing in drawings(running_picture(Running(N, VALUE, nothing, nothing, RUN.on_policy), "")):
        assert [e for e in drawing.iter() if e.get("class") == "band"] == []
        assert len(points(drawing, "estimate")) == 4
    half = RUN.low.copy()
    half[:2] = np.nan
    for drawing in drawings(running_picture(Running(N, VALUE, half, RUN.high, RUN.on_policy), "")):
        assert len(points(drawing, "band")) == 4  # two episodes' ends, there and back


def test_few_values_are_dots_and_many_are_bars() -> None:
    few = np.array([1.0, 1.0, 2.0, 8.0])
    for drawing in drawings(spread_picture(few, 2.0, (1.5, 2.5), "return", "episodes")):
        across = numbers_of(drawing, "x")
        dots = [e for e in drawing.iter("circle") if e.get("class") == "dot"]
        found = sorted(across(float(e.get("cx") or 0)) for e in dots)
        np.testing.assert_allclose(found, few, atol=0.2)  # a dot may stand half a dot's width aside
        assert len({(e.get("cx"), e.get("cy")) for e in dots}) == len(few)  # equal values lie on each other
        (line,) = (e for e in drawing.iter("line") if e.get("class") == "estimate")
        assert across(float(line.get("x1") or 0)) == pytest.approx(2.0, abs=0.05)
        (band,) = (e for e in drawing.iter("rect") if e.get("class") == "band")
        left, width = float(band.get("x") or 0), float(band.get("width") or 0)
        assert (across(left), across(left + width)) == pytest.approx((1.5, 2.5), abs=0.05)
    many = np.random.default_rng(0).normal(50.0, 10.0, FEW + 340)
    for drawing in drawings(spread_picture(many, 50.0, None, "return", "episodes")):
        up = numbers_of(drawing, "y")
        bars = [e for e in drawing.iter("rect") if e.get("class") == "bar"]
        heights = [up(float(e.get("y") or 0)) for e in bars]
        assert sum(heights) == pytest.approx(len(many), rel=0.02)
        assert not [e for e in drawing.iter("rect") if e.get("class") == "band"]


def test_dots_that_would_pile_up_too_high_are_bars() -> None:
    for drawing in drawings(spread_picture(np.repeat([0.0, 1.0], 20), 0.5, None, "return", "episodes")):
        assert not list(drawing.iter("circle"))
        assert len([e for e in drawing.iter("rect") if e.get("class") == "bar"]) == 2


def test_bars_are_few_hold_everything_and_suit_whole_numbers() -> None:
    rng = np.random.default_rng(2)
    for values in (
        rng.normal(size=500),
        rng.standard_cauchy(300),
        np.repeat([1.0, 7.0], 50),
        rng.integers(0, 900, 80) * 1.0,
    ):
        edges = bins(values)
        assert len(edges) <= 40
        assert edges[0] <= values.min()
        assert edges[-1] >= values.max()
        assert np.histogram(values, edges)[0].sum() == len(values)
    np.testing.assert_array_equal(bins(np.array([3.0, 4.0, 6.0])), [2.5, 3.5, 4.5, 5.5, 6.5])


def test_every_pair_its_running_mean_and_the_estimate() -> None:
    gaps = np.array([4.0, -2.0, 1.0, 5.0])
    for drawing in drawings(pairs_picture(gaps, 1.5, (0.5, 2.5))):
        up = numbers_of(drawing, "y")
        dots = [up(float(e.get("cy") or 0)) for e in drawing.iter("circle")]
        np.testing.assert_allclose(dots, gaps, atol=0.05)
        np.testing.assert_allclose([up(y) for y in points(drawing, "second-line")[:, 1]], [4, 1, 1, 2], atol=0.05)
        np.testing.assert_allclose([up(y) for y in points(drawing, "estimate")[:, 1]], 1.5, atol=0.05)
        np.testing.assert_allclose([up(y) for y in points(drawing, "zero")[:, 1]], 0.0, atol=0.05)
        np.testing.assert_allclose(sorted({round(up(y), 1) for y in points(drawing, "band")[:, 1]}), [0.5, 2.5])
    many = drawings(pairs_picture(np.random.default_rng(3).normal(size=5000), 0.0, None))
    assert [len(list(drawing.iter("circle"))) for drawing in many] == [MOST_DOTS, MOST_DOTS]


def test_intervals_below_each_other() -> None:
    rows = [("first <policy>", 2.0, 1.0, 3.0), ("second", 7.0, None, None)]
    for drawing in drawings(intervals_picture(rows, "value")):
        across = numbers_of(drawing, "x")
        (line,) = (e for e in drawing.iter("line") if e.get("class") == "estimate thick")  # none where there is no interval
        assert (across(float(line.get("x1") or 0)), across(float(line.get("x2") or 0))) == pytest.approx((1, 3), abs=0.05)
        dots = [across(float(e.get("cx") or 0)) for e in drawing.iter("circle")]
        assert dots == pytest.approx([2.0, 7.0], abs=0.05)
        assert "first <policy>" in [t.text for t in drawing.iter("text")]


@pytest.mark.parametrize("size", [1e-100, 1e-6, 1e7, 1e100])
def test_numbers_of_any_size_are_drawn(size: float) -> None:
    values = size * np.random.default_rng(4).normal(size=100)
    for picture in (spread_picture(values, 0.0, None, "return", "episodes"), pairs_picture(values, 0.0, None)):
        assert "nan" not in (picture or "nan")


def test_a_range_beyond_floating_point_is_not_drawn() -> None:
    huge = np.array([-1.7e308, 1.7e308])
    assert spread_picture(huge, 0.0, None, "return", "episodes") is None
    assert pairs_picture(huge, 0.0, None) is None
    assert intervals_picture([("a", -1.7e308, None, None), ("b", 1.7e308, None, None)], "value") is None
    assert running_picture(Running(N, np.resize(huge, 4), VALUE, VALUE, VALUE), "") is None
