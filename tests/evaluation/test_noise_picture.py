"""The strip of the noise budget: every share has its place, in characters and in SVG."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from evenroll.evaluation.noise import NoiseBudget
from evenroll.evaluation.noise_picture import in_characters, segments, svg
from evenroll.evaluation.running_estimate import Running, draw_running
from evenroll.files.figures import save_figure

TOLD = NoiseBudget(0.5, 0.05, 0.2, 0.04, 0.3, 0.1, 0.002, 0.198, 0.1)
NOT_TOLD = NoiseBudget(0.5, 0.05, None, None, 0.5)


def test_segments_are_the_shares():
    found = segments(TOLD)
    assert [part.name for part in found] == ["actions", "starts", "actions left", "environment"]  # 0.2 % is not shown
    assert sum(part.share for part in found) == pytest.approx(1.0)
    assert [part.name for part in segments(NOT_TOLD)] == ["actions", "left"]
    assert found[0].label == "choices, taken out 50%"


@pytest.mark.parametrize("width", [10, 48, 49])
def test_characters_fill_the_width_and_no_share_vanishes(width):
    parts = in_characters(NoiseBudget(0.985, 0.0, 0.006, 0.0, 0.009, 0.0, 0.0, 0.009, 0.0), width)
    assert sum(len(text) for text, _, _ in parts) == width
    assert [text[0] for text, _, _ in parts] == ["█", "▓", "·"]


def test_svg_is_well_formed_and_as_wide_as_its_shares():
    root = ElementTree.fromstring(svg(TOLD, 600))
    bars = [float(r.get("width")) for r in root.iter("{http://www.w3.org/2000/svg}rect") if r.get("height") == "26"]
    assert sum(bars) == pytest.approx(600, abs=0.5)
    assert bars[0] == pytest.approx(600 * segments(TOLD)[0].share, abs=0.1)
    assert "choices, left 10%" in root.get("aria-label")


def test_the_strip_stands_below_the_running_estimate(tmp_path):
    n = np.array([10, 20, 40])
    value = np.array([1.0, 2.0, 3.0])
    run = Running(n, value, value - 1.0, value + 1.0, np.array([4.0, 2.0, 1.0]))
    save_figure(draw_running(run, "title", TOLD), tmp_path / "with.svg")
    save_figure(draw_running(run, "title"), tmp_path / "without.svg")
    assert (tmp_path / "with.svg").read_text().count("<path") > (tmp_path / "without.svg").read_text().count("<path")
