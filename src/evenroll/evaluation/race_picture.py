"""How a race went: the estimate of every policy after each look, until it dropped out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELLED = 12  # policies whose names fit into the picture
TALL, WIDE = 0.045, 0.2  # the size of a name, as a share of the picture's


def draw_race(history: Sequence[tuple[int, dict[str, float]]], names: Sequence[str], winner: str, title: str) -> Figure:
    """history: the rounds at every look, and the estimates of those that were left; names: in the order of the result."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ends = {name: [(n, v[name]) for n, v in history if name in v][-1] for name in names if name in history[0][1]}
    heights = _apart(ends)
    figure, axis = plt.subplots(figsize=(7, 4.4), layout="constrained")
    for place, name in reversed(list(enumerate(names))):
        points = [(n, values[name]) for n, values in history if name in values]
        if not points:
            continue
        x, y = zip(*points, strict=True)
        first = name == winner
        axis.plot(x, y, color="#c44e52" if first else "0.6", lw=2.2 if first else 1.2, zorder=3 if first else 2)
        out = len(points) < len(history)
        axis.plot(x[-1:], y[-1:], "x" if out else "o", color="#c44e52" if first else "0.45", ms=6, zorder=3)
        if place < LABELLED:
            axis.annotate(
                name, (x[-1], heights[name]), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9,
                color="#c44e52" if first else "0.35",
            )  # fmt: skip
    axis.set_xlabel("rounds: episodes of every policy that is left (× has dropped out)")
    axis.set_ylabel("estimate")
    axis.set_title(title, fontsize=11)
    axis.grid(True, color="0.93")
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.12)
    return figure


def _apart(ends: Mapping[str, tuple[int, float]]) -> dict[str, float]:
    """Heights at which the names of lines that end close together do not cover each other."""
    values, rounds = [y for _, y in ends.values()], [x for x, _ in ends.values()]
    tall, wide = TALL * max(max(values) - min(values), 1e-12), WIDE * max(rounds)
    placed: dict[str, float] = {}
    for name, (x, y) in sorted(ends.items(), key=lambda item: item[1][1]):
        near = [height for other, height in placed.items() if abs(ends[other][0] - x) < wide]
        placed[name] = max([y, *(height + tall for height in near)]) if near and max(near) + tall > y else y
    return placed
