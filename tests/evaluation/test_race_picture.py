"""The picture of a race: a line for every policy, as long as it ran."""

from __future__ import annotations

from evenroll.evaluation.race_picture import draw_race


def test_every_policy_has_a_line_as_long_as_it_ran() -> None:
    history = [(5, {"a": 1.0, "b": 2.0, "c": 0.0}), (8, {"a": 1.2, "b": 2.1}), (12, {"b": 2.2})]
    figure = draw_race(history, ["b", "a", "c"], "b", "b is the best")
    axis = figure.axes[0]
    lines = {len(line.get_xdata()): line for line in axis.lines if line.get_linestyle() == "-"}
    assert sorted(lines) == [1, 2, 3]
    assert list(lines[3].get_ydata()) == [2.0, 2.1, 2.2]
    assert lines[3].get_linewidth() > lines[2].get_linewidth()
    assert {text.get_text() for text in axis.texts} == {"a", "b", "c"}
    ends = [line.get_marker() for line in axis.lines if line.get_linestyle() == "None"]
    assert sorted(ends) == ["o", "x", "x"]
    assert axis.get_title() == "b is the best"
