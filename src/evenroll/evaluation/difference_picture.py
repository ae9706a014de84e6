"""How a difference came about: that of every pair of episodes, their running mean, and the interval in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_pairs(
    gaps: np.ndarray, value: float, interval: tuple[float, float] | None, confidence: float, title: str
) -> Figure:
    """The differences [n] of the pairs, their running mean, and what was found."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n = np.arange(1, len(gaps) + 1)
    figure, axis = plt.subplots(figsize=(7, 4.4), layout="constrained")
    axis.axhline(0.0, color="0.6", lw=1.0)
    if interval is not None:
        level = f"{100 * confidence:g} % interval of the difference"
        axis.axhspan(*interval, color="#c44e52", alpha=0.25, lw=0, label=level)
    axis.plot(n, gaps, ".", color="0.55", ms=4, label="a pair of episodes from one start")
    axis.plot(n, np.cumsum(gaps) / n, color="#4c72b0", lw=1.4, label="running mean of the pairs")
    axis.axhline(value, color="#c44e52", lw=1.8, label="estimate, with the luck taken out")
    axis.set_xlabel("pairs of episodes")
    axis.set_ylabel("first policy minus second")
    axis.set_title(title, fontsize=11)
    axis.grid(True, color="0.93")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    return figure


def paired(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The differences of the episodes that both have finished."""
    n = min(len(first), len(second))
    return np.asarray(first[:n] - second[:n])
