"""How an evaluation came about: the running estimate and its interval."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.collection.balance import Divergence
from evenroll.collection.rollouts import Rollouts
from evenroll.domains.catalogue import get_domain
from evenroll.errors import EvenrollError
from evenroll.evaluation.looking import Seen
from evenroll.evaluation.running_estimate import running
from evenroll.intervals.independent import student_t
from evenroll.samplers import OnPolicy
from tests.helpers import trial


def seen(data: Rollouts) -> Seen:
    return Seen(data, get_domain("gridworld").policy(), OnPolicy(), Divergence(0.0, 0.0, 0.0), "table", "gridworld", 0)


def test_each_point_is_the_estimate_of_the_first_episodes() -> None:
    """On-policy it is the mean and Student's interval of the first n returns, and the last point is all of the data."""
    data = trial("gridworld", "os", episodes=300)
    run = running(seen(data))
    assert (run.episodes[0], run.episodes[-1]) == (10, 300)
    for i, n in enumerate(run.episodes):
        low, high = student_t(data.returns[:n])
        assert run.value[i] == pytest.approx(data.returns[:n].mean())
        assert (run.low[i], run.high[i], run.on_policy[i]) == pytest.approx((low, high, (high - low) / 2))


def test_initial_data_counts_from_the_first_point_on() -> None:
    """Of 40 initial episodes and 60 new ones, the points before 40 are made of initial data alone."""
    first = trial("gridworld", "os", (1,), episodes=40)
    data = trial("gridworld", "os", (2,), episodes=60).after(first)
    run = running(seen(data))
    at = np.flatnonzero(run.episodes >= 40)
    np.testing.assert_allclose(run.value[at], [data.returns[:n].mean() for n in run.episodes[at]])
    assert run.episodes[-1] == 100


def test_too_few_episodes_are_refused() -> None:
    data = trial("gridworld", "os", episodes=9)
    with pytest.raises(EvenrollError, match="at least 10"):
        running(seen(data))
