"""The picture of a comparison: its lines are the curves, and drawing leaves matplotlib's settings alone."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pytest

import evenroll
from evenroll.errors import EvenrollError
from evenroll.study.comparison_plot import draw_curves
from evenroll.study.curve import Curve


def test_lines_are_the_curves() -> None:
    rng = np.random.default_rng(0)
    curves = [Curve(name, 1.0 + 0.1 * rng.normal(size=(8, 3))) for name in ("os/mc", "mine/mc")]
    figure = draw_curves("title", (0, 10, 20), curves, np.array([np.inf, 0.1, 0.05]))
    theory, *lines = figure.axes[0].lines
    np.testing.assert_array_equal(theory.get_ydata(), [0.1, 0.05])
    for line, curve in zip(lines, curves, strict=True):
        assert line.get_label() == curve.method
        np.testing.assert_array_equal(line.get_xdata(), [10, 20])
        np.testing.assert_array_equal(line.get_ydata(), curve.mse[1:])


def test_a_comparison_draws_itself(tmp_path: Path) -> None:
    backend = matplotlib.get_backend()
    result = evenroll.compare("gridworld", ["os/mc"], trials=3, budget=4)
    assert result.plot().axes[0].get_title().startswith("gridworld: 3 trials")
    result.plot(tmp_path / "curves.svg")
    assert b"<svg" in (tmp_path / "curves.svg").read_bytes()
    with pytest.raises(EvenrollError, match="cannot write"):
        result.plot(tmp_path / "curves.nonsense")
    assert matplotlib.get_backend() == backend
