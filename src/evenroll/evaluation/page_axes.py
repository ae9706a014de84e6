"""Axes of the figures of a page, as small pieces of SVG: numbers to pixels, round numbers beside them, lines and bands.

Every figure is drawn twice, for a wide page and for a phone, so that its text is as large as the text around it; the style
sheet shows one of the two. Colours are names of the style sheet, which has a light and a dark value for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evenroll.text.page import Html, element, joined

Numbers = Sequence[float] | np.ndarray

WIDE, NARROW = 520, 330  # pixels; what a column of the page has on a desktop, and on a phone of 390
LEAST = 1e-290  # a range that is smaller has no round numbers in floating point
LETTER = 7.2  # pixels that a digit of 12.5 pixels takes, with some air
LEFT, RIGHT, TOP, BOTTOM = 12.0, 14.0, 26.0, 44.0  # pixels around what is drawn; more at the left for the numbers there


@dataclass(frozen=True)
class Axis:
    """From numbers to pixels. On a logarithmic axis low and high are above 0."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, x: float) -> float:
        low, high, x = (math.log(v) for v in (self.low, self.high, x)) if self.log else (self.low, self.high, x)
        return self.start + (x - low) / (high - low) * (self.end - self.start)

    def ticks(self, count: int) -> list[tuple[float, str]]:
        """About so many round numbers on the axis, and how they are written."""
        return log_ticks(self.low, self.high, count) if self.log else round_ticks(self.low, self.high, count)

    def fitting(self) -> list[tuple[float, str]]:
        """As many round numbers as there is room for below the axis."""
        longest = max(len(text) for _, text in self.ticks(6))
        return self.ticks(max(2, min(7, int((self.end - self.start) / (LETTER * longest + 22.0)))))


def limits(*values: np.ndarray | float, air: float = 0.05) -> tuple[float, float] | None:
    """The range of all finite values with some air around it; None if no picture can show it.

    Values that are all alike get a range around them: they are drawn in the middle, and not at the edge.
    """
    every = np.concatenate([np.ravel(np.asarray(v, dtype=np.float64)) for v in values])
    every = every[np.isfinite(every)]
    if not len(every):
        return None
    low, high = float(every.min()), float(every.max())
    margin = air * (high - low)
    if not margin > 1e-9 * max(abs(low), abs(high)):
        margin = 0.5 * abs(high) or 1.0
    drawable = high - low + 2.0 * margin > LEAST and math.isfinite(high + 2.0 * margin - (low - 2.0 * margin))
    return (low - margin, high + margin) if drawable else None


def round_ticks(low: float, high: float, count: int) -> list[tuple[float, str]]:
    """Multiples of 1, 2 or 5 times a power of ten, with just the digits that tell them apart."""
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= rough * (1.0 - 1e-9))
    numbers = [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    largest, decimals = max(abs(low), abs(high)), max(0, -math.floor(math.log10(step) + 1e-9))
    if largest < 1e6 and decimals <= 6:
        return [(x, f"{x:,.{decimals}f}".replace("-", "−")) for x in numbers]
    digits = max(1, math.floor(math.log10(largest)) - math.floor(math.log10(step) + 1e-9) + 1)
    return [(x, f"{x:.{min(digits, 17)}g}".replace("-", "−")) for x in numbers]


def log_ticks(low: float, high: float, count: int) -> list[tuple[float, str]]:
    """Both ends, and powers of ten between them that come too close neither to the ends nor to each other."""
    span = math.log(high / low) or 1.0
    every = max(1, math.ceil(span / math.log(10.0) / count))
    between = [10.0**k for k in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1, every)]
    kept = [x for x in between if min(math.log(x / low), math.log(high / x)) / span > 0.8 / count]
    return [(x, f"{x:,.0f}") for x in sorted({low, *kept, high})]


@dataclass(frozen=True)
class Frame:
    """A drawing with two axes: the pixels that they run over, and the lines and numbers beside them."""

    width: int
    height: int
    x: Axis
    y: Axis
    marks: Html

    @classmethod
    def of(
        cls, width: int, x: tuple[float, float], y: tuple[float, float], names: tuple[str, str], *, log: bool = False,
        height: int = 250, whole: bool = False, beside: bool = True,
    ) -> Frame:  # fmt: skip
        """names: of both axes. whole: y counts something, so that its numbers are whole. beside: whether y has numbers."""
        ys = [tick for tick in round_ticks(*y, 7) if not whole or tick[0] == round(tick[0])] if beside else []
        left = LEFT + max((LETTER * len(text) for _, text in ys), default=0.0)
        across, up = Axis(*x, left, width - RIGHT, log), Axis(*y, height - BOTTOM, TOP)
        lines = [element("line", x1=left, x2=across.end, y1=n(up.at(v)), y2=n(up.at(v)), class_="grid") for v, _ in ys]
        lines += [words(left - 6.0, up.at(v) + 4.0, text, "end") for v, text in ys]
        lines += [element("line", x1=left, x2=across.end, y1=up.start, y2=up.start, class_="axis")]
        lines += [words(left, 14.0, names[1], "start")] if beside else []
        return cls(width, height, across, up, joined([*lines, below(across, width, height, names[0])]))

    def line(self, xs: Numbers, ys: Numbers, kind: str) -> Html:
        """A line through the points. It is broken where a number is missing."""
        parts = [" ".join(f"{n(self.x.at(a))},{n(self.y.at(b))}" for a, b in run) for run in runs(xs, ys)]
        return joined(element("polyline", points=part, class_=kind) for part in parts)

    def band(self, xs: Numbers, low: Numbers, high: Numbers, kind: str) -> Html:
        """The area between two lines. It is broken where a number is missing."""
        parts = []
        for run in runs(xs, low, high):
            down = [f"{n(self.x.at(a))},{n(self.y.at(b))}" for a, b, _ in run]
            back = [f"{n(self.x.at(a))},{n(self.y.at(c))}" for a, _, c in reversed(run)]
            parts.append(element("polygon", points=" ".join(down + back), class_=kind))
        return joined(parts)

    def dots(self, xs: Numbers, ys: Numbers, kind: str, radius: float) -> Html:
        there = [(a, b) for a, b in zip(xs, ys, strict=True) if math.isfinite(b)]
        return joined(element("circle", cx=n(self.x.at(a)), cy=n(self.y.at(b)), r=radius, class_=kind) for a, b in there)

    def upright(self, x: float, kind: str) -> Html:
        """A line from the bottom to the top at x."""
        at = n(self.x.at(x))
        return element("line", x1=at, x2=at, y1=n(self.y.start), y2=n(self.y.end), class_=kind)

    def column(self, low: float, high: float, kind: str) -> Html:
        """A band from the bottom to the top, at least a pixel wide."""
        left, right = self.x.at(low), self.x.at(high)
        return element(
            "rect", x=n(left), y=n(self.y.end), width=n(max(right - left, 1.0)), height=n(self.y.start - self.y.end),
            class_=kind,
        )  # fmt: skip

    def drawing(self, *marks: Html) -> tuple[int, Html]:
        return self.height, joined([self.marks, *marks])


def picture(draw: Callable[[int], tuple[int, Html]], title: str, description: str) -> Html:
    """What `draw` makes of a width, as (height, marks): once for a wide page and once for a phone."""
    drawn = []
    for width, kind in ((WIDE, "wide"), (NARROW, "narrow")):
        height, marks = draw(width)
        said = (element("title", title), element("desc", description))
        drawn.append(element("svg", *said, marks, viewBox=f"0 0 {width} {height}", class_=kind, role="img"))
    return joined(drawn)


def below(x: Axis, width: int, height: int, name: str) -> Html:
    """The numbers below an axis, as many as there is room for, and the axis's name. None of them leaves the drawing."""
    inside = [(min(max(x.at(v), LETTER * len(t) / 2), width - LETTER * len(t) / 2), t) for v, t in x.fitting()]
    return joined([*(words(at, height - 26.0, t) for at, t in inside), words(x.end, height - 6.0, name, "end")])


def runs(*columns: Numbers) -> list[list[tuple[float, ...]]]:
    """Rows of columns, cut where a number is not finite."""
    found: list[list[tuple[float, ...]]] = [[]]
    for row in zip(*columns, strict=True):
        if all(math.isfinite(v) for v in row):
            found[-1].append(tuple(float(v) for v in row))
        elif found[-1]:
            found.append([])
    return [run for run in found if run]


def words(x: float, y: float, text: str, anchor: str = "middle", kind: str | None = None) -> Html:
    """Text in a drawing, in its middle at x unless `anchor` is start or end."""
    return element("text", text, x=n(x), y=n(y), text_anchor=anchor, class_=kind)


def n(x: float) -> str:
    """A number of pixels."""
    return f"{x:.1f}".removesuffix(".0")
