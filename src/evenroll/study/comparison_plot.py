"""The picture of a comparison. Matplotlib is imported only when a picture is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evenroll.study.curve import Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#4c72b0", "#c44e52", "#55a868", "#8172b3", "#dd8452", "#64b5cd", "#937860", "#da8bc3")


def draw_curves(title: str, checkpoints: Sequence[int], curves: Sequence[Curve], theory: np.ndarray) -> Figure:
    """MSE curves on logarithmic scales, with bands of one standard error.

    `theory` is the error that on-policy sampling must show at each checkpoint.

    The figure belongs to no window and to no backend, so that the settings of a notebook stay as they are.
    """
    from matplotlib.figure import Figure

    x = np.array(checkpoints, dtype=float)
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axis = figure.subplots()
    shown = x > 0
    if np.isfinite(theory[shown]).any():
        axis.plot(x[shown], theory[shown], color="0.5", lw=1, ls=":", label="on-policy, theory: Var / (n v²)")
    for i, curve in enumerate(curves):
        mse, se = curve.mse, curve.mse_se
        good = shown & np.isfinite(mse) & (mse > 0) & (curve.missing <= len(curve.estimates) / 2)
        colour = COLOURS[i % len(COLOURS)]
        axis.plot(x[good], mse[good], color=colour, lw=1.8, marker="o", ms=3.5, label=curve.method)
        low = np.maximum(mse - se, mse / 10)
        axis.fill_between(x[good], low[good], (mse + se)[good], color=colour, alpha=0.18, lw=0)
    axis.set_xscale("log", base=10)
    axis.set_yscale("log", base=10)
    axis.set_xlabel("environment steps")
    axis.set_ylabel("mean squared error, relative to v²")
    axis.set_title(title, fontsize=11)
    axis.grid(True, which="major", color="0.9")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    return figure
