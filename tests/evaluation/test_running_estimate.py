"""How an evaluation came about: the running estimate and its interval."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import evenroll
from evenroll.collection.balance import Divergence
from evenroll.collection.rollouts import Rollouts
from evenroll.domains.catalogue import get_domain
from evenroll.errors import EvenrollError
from evenroll.estimators import get_estimator
from evenroll.evaluation.looking import Look, Seen
from evenroll.evaluation.running_estimate import Running, draw_running, running
from evenroll.intervals.independent import student_t
from evenroll.samplers import OnPolicy
from tests.helpers import trial

MEAN = Look(get_estimator("mc"))


def seen(data: Rollouts) -> Seen:
    return Seen(data, get_domain("gridworld").policy(), OnPolicy(), Divergence(0.0, 0.0, 0.0), "table", "gridworld", 0)


def test_each_point_is_the_estimate_of_the_first_episodes() -> None:
    """On-policy it is the mean and Student's interval of the first n returns, and the last point is all of the data."""
    data = trial("gridworld", "os", episodes=300)
    run = running(seen(data), MEAN)
    assert (run.episodes[0], run.episodes[-1]) == (10, 300)
    for i, n in enumerate(run.episodes):
        low, high = student_t(data.returns[:n])
        assert run.value[i] == pytest.approx(data.returns[:n].mean())
        assert (run.low[i], run.high[i], run.on_policy[i]) == pytest.approx((low, high, (high - low) / 2))


def test_initial_data_counts_from_the_first_point_on() -> None:
    """Of 40 initial episodes and 60 new ones, the points before 40 are made of initial data alone."""
    first = trial("gridworld", "os", (1,), episodes=40)
    data = trial("gridworld", "os", (2,), episodes=60).after(first)
    run = running(seen(data), MEAN)
    at = np.flatnonzero(run.episodes >= 40)
    np.testing.assert_allclose(run.value[at], [data.returns[:n].mean() for n in run.episodes[at]])
    assert run.episodes[-1] == 100


def test_too_few_episodes_are_refused() -> None:
    data = trial("gridworld", "os", episodes=9)
    with pytest.raises(EvenrollError, match="at least 10"):
        running(seen(data), MEAN)


def test_the_picture_shows_what_it_says() -> None:
    """Both bands and the line by hand, and the confidence that was asked for."""
    n, value = np.array([10, 40, 160]), np.array([3.0, 5.0, 4.0])
    figure = draw_running(Running(n, value, value - 1.0, value + 0.5, np.array([4.0, 2.0, 1.0]), confidence=0.9), "t")
    (axis,) = figure.axes
    np.testing.assert_array_equal(axis.lines[0].get_xydata(), np.column_stack([n, value]))
    plain, own = (band.get_paths()[0].vertices for band in axis.collections)
    for x, half in ((10, 4.0), (160, 1.0)):  # as wide as √n makes it, around the last value
        ends = plain[np.isclose(plain[:, 0], x), 1]
        assert (ends.min(), ends.max()) == pytest.approx((4.0 - half, 4.0 + half))
    for x, low, high in zip(n, value - 1.0, value + 0.5, strict=True):
        ends = own[own[:, 0] == x, 1]
        assert (ends.min(), ends.max()) == (low, high)
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert [label.split()[0] for label in labels[:2]] == ["90", "90"]
    assert list(axis.get_xticks()) == [10, 100, 160]


def test_a_result_draws_how_it_came_about(tmp_path: Path) -> None:
    """The last point of the picture is the result, which `evaluate --plot` draws as well."""
    found = evenroll.evaluate("cartpole", episodes=60)
    figure = found.plot(tmp_path / "a.svg")
    axis = figure.axes[0]
    assert axis.lines[0].get_xydata()[-1] == pytest.approx([60, found.value])
    low, high = axis.collections[1].get_paths()[0].vertices[:, 1].min(), found.high
    assert low <= (found.low or 0.0) <= found.value <= (high or 0.0)
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    with pytest.raises(EvenrollError, match="no data to draw"):
        evenroll.Evaluation.from_json(found.to_json()).plot()
