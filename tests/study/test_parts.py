"""Parts of claims, read from trials whose numbers are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evenroll.study.blocks import BlockData, Work, resolve
from evenroll.study.parts import USUAL, BiasPart, Critical, Measured, MedianPart, RatioPart, TrendPart
from evenroll.study.ratios import FAILS, HOLDS, UNDECIDED
from evenroll.study.results import Results, Trialled
from evenroll.study.targets import Line


def measured(collect: str, epsilon: float | None = None, quantity: str = "mse") -> Measured:
    return Measured(Line(collect, Work("bandit", collect, ("mc",), (4.0,), epsilon=epsilon), "mc", 4), quantity)


def results(errors: dict[Measured, np.ndarray]) -> Results:
    """Results whose trials err by these numbers."""
    found = {}
    for m, error in errors.items():
        known = resolve(m.line.work)
        values = 1.0 + np.broadcast_to(error[:, None, None], (len(error), 1, len(known.checkpoints)))
        found[m.line.work] = Trialled(
            m.line.work, BlockData(known.columns, known.checkpoints, values, np.zeros(len(error), bool))
        )
    return Results(found)


OS, ROS = measured("os"), measured("ros")
WIDE = np.sqrt(np.array([0.5, 1.5] * 50))  # squared errors of mean 1 and standard deviation 0.5


def test_a_ratio_reaches_as_far_on_each_side_as_is_asked_for() -> None:
    """The relative standard error of a mean is 0.5/√99 of itself; that of a ratio √2 times as much, 0.07107."""
    there = results({ROS: 0.9 * WIDE, OS: WIDE})
    part, error = RatioPart("ratio", (ROS,), (OS,)), math.sqrt(2) * 0.5 / math.sqrt(99)
    found = part.read(there, Critical(2.0, 3.0))
    assert found.value == pytest.approx(0.81)
    assert (found.low, found.high) == pytest.approx((0.81 * math.exp(-3 * error), 0.81 * math.exp(2 * error)))
    assert found.strength == pytest.approx(-math.log(0.81) / error)  # 2.965
    assert (found.verdict, found.trials) == (HOLDS, (100,))
    assert part.read(there, Critical(3.0, 3.0)).verdict == UNDECIDED
    other = RatioPart("ratio", (ROS,), (OS,), below=False)
    assert other.read(there, Critical(3.0, 2.9)).verdict == FAILS
    assert other.read(there, Critical(2.0, 3.0)).verdict == UNDECIDED
    assert other.read(there, USUAL).strength == pytest.approx(math.log(0.81) / error)
    ten = RatioPart("ratio", (ROS,), (OS,), below=False, bound=0.5)
    assert ten.read(there, USUAL).strength == pytest.approx(math.log(0.81 / 0.5) / error)


def test_a_ratio_without_errors_or_without_trials_to_spread_decides_nothing() -> None:
    for errors in (np.zeros(4), np.ones(1)):
        found = RatioPart("ratio", (ROS,), (OS,)).read(results({ROS: errors, OS: np.ones(len(errors))}), USUAL)
        assert found.verdict == UNDECIDED
        assert math.isnan(found.strength)


def test_a_ratio_next_to_its_border_is_closed() -> None:
    """The squared errors vary by 2 %, so the ratio of 100 trials is known to ± 0.6 %."""
    narrow = np.sqrt(np.array([0.98, 1.02] * 50))
    part = RatioPart("ratio", (ROS,), (OS,))
    found = part.read(results({ROS: narrow, OS: narrow}), USUAL)
    assert found.verdict == UNDECIDED
    assert "within 1 % of the border" in found.closed
    assert part.read(results({ROS: WIDE, OS: WIDE}), USUAL).closed == ""


def test_medians_are_apart_by_both_intervals() -> None:
    """Of 400 numbers the median's interval has the order statistics 200 ± c/2 · 20. On a logarithmic ladder of 100 steps for
    a factor e the intervals of c = 2 end 20 steps from the median, and so medians must be 40 steps apart."""
    ladder = np.exp(np.arange(400) / 200)  # errors; squared ones are twice as far apart
    for steps, verdict in ((39, UNDECIDED), (45, HOLDS), (-39, UNDECIDED), (-45, FAILS)):
        there = results({ROS: ladder * math.exp(-steps / 200), OS: ladder})
        found = MedianPart("medians", ROS, OS).read(there, Critical(2.0, 2.0))
        assert found.verdict == verdict, steps
        assert found.strength == pytest.approx(2.0 * steps / 40, rel=0.06)
    assert MedianPart("medians", ROS, OS).read(there, Critical(2.0, 3.0)).verdict == UNDECIDED


def test_the_error_of_a_trend_is_that_of_its_ratios() -> None:
    """Against a numerical derivative: one log ratio after another is moved by a little of its standard error."""
    epsilons = (0.1, 0.3, 0.5, 0.7, 0.9)
    over, under = (tuple(measured(c, e) for e in epsilons) for c in ("ros:alpha=1000", "os"))
    levels = np.array([0.0, -0.3, -0.1, -0.5, -0.2])

    def trend(moved: np.ndarray, critical: Critical) -> tuple[float, float, float]:
        there = dict.fromkeys(under, WIDE) | {a: WIDE * math.exp(x / 2) for a, x in zip(over, moved, strict=True)}
        found = TrendPart("correlation", over, under).read(results(there), critical)
        return found.value, found.low, found.high

    value, low, high = trend(levels, Critical(1.0, 1.0))
    assert value == pytest.approx(np.corrcoef(np.arange(5), levels)[0, 1])
    tiny, error = 1e-5, math.sqrt(2) * 0.5 / math.sqrt(99)
    slopes = [(trend(levels + tiny * row, USUAL)[0] - value) / tiny for row in np.eye(5)]
    assert (high - value, value - low) == pytest.approx((error * np.linalg.norm(slopes),) * 2, rel=1e-3)


@pytest.mark.parametrize(("slope", "verdict"), [(-1.0, HOLDS), (1.0, FAILS), (0.0, UNDECIDED)])
def test_a_trend_is_decided_by_its_interval(slope: float, verdict: str) -> None:
    """With no slope the ratios go up and down by turns, and no number of trials makes a trend of that."""
    epsilons = (0.1, 0.3, 0.5, 0.7, 0.9)
    over, under = (tuple(measured(c, e) for e in epsilons) for c in ("ros:alpha=1000", "os"))
    logs = [slope * i + (0.0 if slope else float(i % 2)) for i in range(5)]
    there = dict.fromkeys(under, WIDE) | {a: WIDE * math.exp(x / 2) for a, x in zip(over, logs, strict=True)}
    found = TrendPart("correlation", over, under).read(results(there), Critical(2.0, 2.0))
    assert found.verdict == verdict
    assert ("decides nothing" in found.closed) == (verdict == UNDECIDED)
    if verdict == UNDECIDED:
        assert math.isnan(found.strength)


def test_a_bias_is_seen_in_either_direction() -> None:
    """Errors of mean 0.1 and standard error 0.05."""
    spread = np.tile([-1.0, 1.0], 50) * 0.05 * math.sqrt(99)
    for sign in (1, -1):
        there = results({OS: sign * 0.1 + spread})
        found = BiasPart("bias", OS).read(there, Critical(1.9, 1.9))
        assert (found.verdict, found.strength) == (HOLDS, pytest.approx(2.0))
        assert BiasPart("bias", OS).read(there, Critical(2.1, 0.0)).verdict == UNDECIDED
