"""Tables 3 and 4, from results whose numbers are known."""

from __future__ import annotations

import pytest

from evenroll.study.blocks import resolve
from evenroll.study.experiments import QUICK, targets
from evenroll.study.published import published_final
from evenroll.study.tables import markdown, table
from tests.study.invented import exact


def test_a_cell_holds_what_was_measured_what_was_published_and_theory() -> None:
    target = targets(QUICK)["table3"]
    found = table(target, exact(target, lambda work: 0.004 if work.collect == "ros" else 0.01))
    cell = found.cells["ros/mc", "gridworld"]
    assert (cell.measured.value, cell.against_os.value) == (pytest.approx(0.004), pytest.approx(0.4))
    assert cell.theory is None
    published, base = (published_final("table3", method, "gridworld") for method in ("ros/mc", "os/mc"))
    assert published is not None
    assert base is not None
    assert cell.published is not None
    assert cell.published_against_os is not None
    assert cell.published.value == published[0]
    assert cell.published_against_os.value == pytest.approx(published[0] / base[0])
    work = next(w for w in target.wanted() if w.domain == "gridworld" and w.collect == "os")
    known = resolve(work)
    episodes = known.checkpoints[-1] / known.truth.mean_length
    expected = known.truth.variance / (episodes * known.truth.value * known.truth.value)
    assert found.cells["os/mc", "gridworld"].theory == pytest.approx(expected)
    text = markdown(found, QUICK)
    assert "| ROS-MC | 4.00e-03 ± 2.9e-04 |" in text
    assert "| ROS-MC | 0.4 [0.33, 0.49] |" in text
