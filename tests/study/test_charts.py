"""Charts as values: the line of theory, what is published, and one look for one method."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.study.blocks import resolve
from evenroll.study.charts import Chart, charts
from evenroll.study.experiments import METHODS, QUICK, Roster, targets
from evenroll.study.palette import GREY, INK, LineStyle
from evenroll.study.targets import label
from tests.study.invented import exact

MORE = Roster(methods=(*METHODS, "roa/mc", "os/score", "ros:alpha=5/mc"))


def every_chart() -> dict[str, tuple[Chart, ...]]:
    return {n: charts(t, exact(t, lambda work: 0.01, trials=4)) for n, t in targets(QUICK, MORE).items()}


def test_the_dotted_line_is_var_over_n_v_squared() -> None:
    target = targets(QUICK)["fig2"]
    for panel, chart in zip(target.panels, charts(target, exact(target, lambda work: 0.01)), strict=True):
        known = resolve(panel.lines[0].work).truth
        line = next(s for s in chart.series if s.dash == "theory")
        episodes = line.x / known.mean_length
        assert line.y == pytest.approx(known.variance / (episodes * known.value * known.value))
        assert line.look.colour is GREY


def test_a_method_has_one_look_and_a_look_one_method() -> None:
    """Over all figures. A method without an estimator is the way to collect, and `init+` is part of the method."""
    looks: dict[str, set[LineStyle]] = {}
    for name, parts in every_chart().items():
        if name in ("theory", "table3", "table4"):
            continue
        for series in (s for chart in parts for s in chart.series if s.dash != "theory"):
            known = series.label.removesuffix(", published")
            looks.setdefault(known, set()).add(series.look)
    assert {label: len(found) for label, found in looks.items() if len(found) > 1} == {}
    plain = {label(method) for method in ("os/mc", "bpg/ois", "ros/mc", "auto/mc", "roa/mc", "init+os/mc")}
    assert plain <= looks.keys()
    for method in ("os/mc", "bpg/ois", "ros/mc", "auto/mc"):
        assert looks[label(method)] == looks[label(method.partition("/")[0])]


def test_in_a_chart_no_two_methods_look_alike() -> None:
    for name, parts in every_chart().items():
        for chart in parts:
            ours = [s for s in chart.series if not s.dash]
            assert len({s.look for s in ours}) == len(ours), (name, chart.title)


def test_what_is_no_way_to_collect_has_no_hue() -> None:
    for chart in every_chart()["theory"]:
        for series in chart.series:
            if series.key not in ("os", "ros"):
                assert series.look.colour in (GREY, INK), series.label


def test_published_curves_stand_beside_those_of_the_same_method() -> None:
    target = targets(QUICK)["fig2"]
    grid = charts(target, exact(target, lambda work: 0.01))[1]
    published = {s.key: s for s in grid.series if s.dash == "published"}
    assert set(published) == {"os/mc", "bpg/ois", "ros/mc"}
    assert all(np.all(s.y > 0) and len(s.x) > 10 for s in published.values())


@pytest.mark.parametrize("name", ["fig2", "fig4", "fig12"])
def test_a_point_that_has_no_error_is_left_out(name: str) -> None:
    """Where one of two trials has no estimate, the other has no spread, and the page cannot hold a nan."""
    target = targets(QUICK)[name]
    results = exact(target, lambda work: 0.01, trials=2)
    whole = charts(target, results)
    for trialled in results.found.values():
        trialled.data.values[0, :, -1] = np.nan
    for chart, before in zip(charts(target, results), whole, strict=True):
        for series, old in zip(chart.series, before.series, strict=True):
            drawn = [values for values in (series.x, series.y, series.low, series.high) if values is not None]
            assert all(np.isfinite(values).all() for values in drawn)
            assert series.dash or len(series.x) < len(old.x), (chart.title, series.label, old.x)
