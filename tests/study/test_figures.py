"""Figures as files: two panels in a row, legible text, the page's colours."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.colors import to_hex

from evenroll.study.charts import charts
from evenroll.study.domain_pictures import domain_pngs, domains_figure, pyplot
from evenroll.study.experiments import QUICK, targets
from evenroll.study.figures import figure_of
from evenroll.study.palette import look_of
from evenroll.study.targets import label
from tests.study.invented import exact


def drawn(name: str) -> Any:
    target = targets(QUICK)[name]
    return figure_of(charts(target, exact(target, lambda work: 0.01, trials=4)), name)


@pytest.mark.parametrize(("name", "panels"), [("fig2", 4), ("fig4", 4), ("fig12", 2)])
def test_panels_stand_two_in_a_row_and_can_be_read(name: str, panels: int) -> None:
    """Shown 1000 pixels wide, text of 8 points in a figure 8.4 inches wide is 13 pixels high."""
    figure = drawn(name)
    assert [tuple(axis.get_subplotspec().get_gridspec().get_geometry()) for axis in figure.axes] == [
        (panels // 2, 2)
    ] * panels
    scale = 1000 / figure.get_figwidth() / 72
    for axis in figure.axes:
        texts = [axis.xaxis.label, axis.yaxis.label, axis.title, *axis.get_xticklabels(), *axis.get_yticklabels()]
        assert min(text.get_fontsize() for text in texts) * scale >= 11.0
    pyplot().close(figure)


def test_a_line_has_the_colour_of_its_method() -> None:
    figure = drawn("fig2")
    (legend,) = figure.legends
    shown = dict(zip((t.get_text() for t in legend.get_texts()), legend.legend_handles, strict=True))
    for method in ("os/mc", "bpg/ois", "ros/mc", "auto/mc"):
        assert to_hex(shown[label(method)].get_color()) == look_of(method).colour.light
    assert list(shown)[-1] == "published"
    assert to_hex(shown["published"].get_color()) == "#1b1f24"  # no method's
    pyplot().close(figure)


def test_the_domains_have_no_colour() -> None:
    import io

    import numpy as np
    from PIL import Image

    pictures = domain_pngs()
    assert list(pictures) == ["Bandit", "GridWorld", "CartPole"]
    for data in pictures.values():
        red, green, blue, solid = np.moveaxis(np.asarray(Image.open(io.BytesIO(data)).convert("RGBA")).astype(int), 2, 0)
        assert np.all((red == green) & (green == blue))
        assert solid.min() == 0  # no background: the page inverts it on dark ground
        assert solid.max() == 255
    figure = domains_figure()
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba()).astype(int)
    assert np.ptp(pixels[:, :, :3], axis=2).max() == 0
    pyplot().close(figure)
