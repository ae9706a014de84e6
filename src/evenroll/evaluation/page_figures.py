"""Figures of a page: how an estimate settled, how returns spread, pairs one after the other, intervals below each other.

Each is None where no picture can show the numbers, because their range is beyond floating point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evenroll.evaluation.page_axes import BOTTOM, LEFT, RIGHT, TOP, Axis, Frame, below, limits, n, picture, words
from evenroll.evaluation.running_estimate import Running
from evenroll.text.page import Html, element, joined

DOT = 9.0  # pixels from one dot of a strip to the next
FEW = 60  # returns that are drawn one by one; more of them are counted in bars; a choice
HIGHEST = 14  # dots that may be piled up; a choice
MOST_BARS = 36  # a choice
MOST_DOTS = 500  # pairs that are drawn; of more, as many are taken at even distances; a choice


def running_picture(run: Running, interval_name: str) -> Html | None:
    """The estimate after ever more episodes, with its interval, and the interval of as many on-policy episodes."""
    at = np.geomspace(run.episodes[0], run.episodes[-1], 40)
    final, wide = float(run.value[-1]), run.on_policy[-1] * np.sqrt(run.episodes[-1] / at)
    across = (float(run.episodes[0]), float(max(run.episodes[-1], run.episodes[0] + 1)))
    up = limits(run.value, run.low, run.high, final - wide, final + wide)
    if up is None:
        return None

    def draw(width: int) -> tuple[int, Html]:
        frame = Frame.of(width, across, up, ("episodes", "value"), log=True)
        return frame.drawing(
            frame.band(at, final - wide, final + wide, "plain-band"),
            frame.band(run.episodes, run.low, run.high, "band"),
            frame.line(run.episodes, run.value, "estimate"),
            frame.dots(run.episodes, run.value, "estimate-dot", 3.0),
        )

    first, last = int(run.episodes[0]), int(run.episodes[-1])
    said = f"From {first:,} to {last:,} episodes. The estimate went from {run.value[0]:.5g} to {final:.5g}; {interval_name}"
    return picture(draw, "The running estimate with its interval", said + " is the band around it.")


def spread_picture(
    values: np.ndarray, value: float, interval: tuple[float, float] | None, name: str, counted: str,
    shared: tuple[float, float] | None = None,
) -> Html | None:  # fmt: skip
    """How values spread: each as a dot, or counted in bars where they are many; the estimate and its interval over them.

    name     of what is drawn, such as return
    counted  of what there are many, such as episodes
    shared   the range of the axis, where several pictures are to have the same
    """
    ends = () if interval is None else interval
    across = shared or limits(values, value, *ends)
    if across is None:
        return None
    edges = bins(values)
    counts, _ = np.histogram(values, edges)

    def draw(width: int) -> tuple[int, Html]:
        stacked = _stacked(values, Axis(*across, LEFT, width - RIGHT)) if len(values) <= FEW else None
        if stacked is not None:
            height = int(TOP + BOTTOM + DOT * (max(level for _, level in stacked) + 2))
            frame = Frame.of(width, across, (0.0, 1.0), (name, ""), height=height, beside=False)
            shapes = [
                element("circle", cx=n(x), cy=n(frame.y.start - DOT * (i + 0.7)), r=3.6, class_="dot") for x, i in stacked
            ]
        else:
            frame = Frame.of(width, across, (0.0, 1.08 * float(counts.max())), (name, counted), whole=True)
            shapes = [_bar(frame, a, b, int(c)) for a, b, c in zip(edges, edges[1:], counts, strict=False) if c]
        over = [frame.column(*interval, "band")] if interval is not None else []
        return frame.drawing(*shapes, *over, frame.upright(value, "estimate"))

    said = f"{len(values):,} values from {values.min():.5g} to {values.max():.5g}, with the median {np.median(values):.5g}."
    return picture(draw, f"How the {name}s spread", said)


def pairs_picture(gaps: np.ndarray, value: float, interval: tuple[float, float] | None) -> Html | None:
    """The differences of the pairs one after the other, their running mean, and the estimate with its interval."""
    pairs = np.arange(1, len(gaps) + 1)
    mean = np.cumsum(gaps) / pairs
    shown = np.unique(np.linspace(0, len(gaps) - 1, min(len(gaps), MOST_DOTS)).astype(int))
    ends = () if interval is None else interval
    up = limits(gaps, 0.0, value, *ends)
    if up is None:
        return None
    across = (0.0, float(len(gaps) + 1))

    def draw(width: int) -> tuple[int, Html]:
        frame = Frame.of(width, across, up, ("pairs of episodes", "first minus second"))
        both, over = np.array(across), []
        if interval is not None:
            over.append(frame.band(both, np.full(2, interval[0]), np.full(2, interval[1]), "band"))
        return frame.drawing(
            frame.line(both, np.zeros(2), "zero"),
            frame.dots(pairs[shown], gaps[shown], "dot", 2.2),
            *over,
            frame.line(pairs[shown], mean[shown], "second-line"),
            frame.line(both, np.full(2, value), "estimate"),
        )

    said = (
        f"{len(gaps):,} differences from {gaps.min():.5g} to {gaps.max():.5g}; their mean is {gaps.mean():.5g}, the "
        f"estimate {value:.5g}."
    )
    return picture(draw, "The difference of every pair of episodes and their running mean", said)


def intervals_picture(rows: Sequence[tuple[str, float, float | None, float | None]], name: str) -> Html | None:
    """(label, value, low, high) one below the other on one axis. A value without an interval is a dot alone."""
    across = limits(*(v for row in rows for v in row[1:] if v is not None))
    if across is None:
        return None

    def draw(width: int) -> tuple[int, Html]:
        height = 60 + 44 * len(rows)
        x = Axis(*across, LEFT, width - RIGHT)
        marks = [
            element("line", x1=n(x.at(v)), x2=n(x.at(v)), y1=6, y2=height - BOTTOM, class_="grid") for v, _ in x.fitting()
        ]
        marks.append(below(x, width, height, name))
        for i, (label, value, low, high) in enumerate(rows):
            y = 34 + 44 * i
            marks.append(words(12, y - 12, label, "start", "label"))
            if low is not None and high is not None:
                marks.append(element("line", x1=n(x.at(low)), x2=n(x.at(high)), y1=y, y2=y, class_="estimate thick"))
            marks.append(element("circle", cx=n(x.at(value)), cy=y, r=5.5, class_="estimate-dot"))
        return height, joined(marks)

    said = "; ".join(f"{label} {value:.5g}" + _between(low, high) for label, value, low, high in rows)
    return picture(draw, "Values with their intervals", f"{said}.")


def bins(values: np.ndarray) -> np.ndarray:
    """Edges of bars: a width after Freedman and Diaconis, and for whole numbers bars around whole numbers."""
    low, high = float(values.min()), float(values.max())
    quarters = np.subtract(*np.percentile(values, [75, 25]))
    width = 2.0 * float(quarters) / len(values) ** (1 / 3) or (high - low) / 10.0
    count = int(min(max((high - low) / width if width > 0.0 else 1.0, 6.0), MOST_BARS))
    if bool(np.all(values == np.round(values))) and max(abs(low), abs(high)) < 1e9:
        step = max(1, math.ceil((high - low + 1.0) / count)) if high - low >= MOST_BARS else 1
        return np.asarray(np.arange(low - 0.5, high + 0.5 + step, step))
    return np.linspace(low, high, count + 1)


def _stacked(values: np.ndarray, x: Axis) -> list[tuple[float, int]] | None:
    """The pixel and the level of a dot for every value; None if dots would be piled up too high."""
    piled: dict[int, int] = {}
    dots = []
    for value in np.sort(values):
        place = round(x.at(float(value)) / DOT)
        dots.append((place * DOT, piled.get(place, 0)))
        piled[place] = piled.get(place, 0) + 1
    return dots if max(piled.values()) <= HIGHEST else None


def _bar(frame: Frame, low: float, high: float, count: int) -> Html:
    left, right, top = frame.x.at(low), frame.x.at(high), frame.y.at(count)
    said = element("title", f"{low:.5g} … {high:.5g}: {count:,}")
    return element(
        "rect", said, x=n(left + 0.5), y=n(top), width=n(max(right - left - 1.0, 1.0)), height=n(frame.y.start - top),
        class_="bar",
    )  # fmt: skip


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({low:.5g} … {high:.5g})"
