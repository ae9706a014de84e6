"""Pictures. Matplotlib is imported only when a picture is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenroll.files.figures import save_figure

if TYPE_CHECKING:
    from evenroll.study.comparison import Comparison

COLOURS = ("#4c72b0", "#c44e52", "#55a868", "#8172b3", "#dd8452", "#64b5cd", "#937860", "#da8bc3")


def plot_comparison(result: Comparison, path: str | Path) -> None:
    """Log-log MSE curves with one-standard-error bands, and the theory of on-policy sampling."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    path = Path(path)
    x = np.array(result.checkpoints, dtype=float)
    fig, axis = plt.subplots(figsize=(7, 4.6), layout="constrained")
    theory = result.on_policy_theory()
    shown = x > 0
    if np.isfinite(theory[shown]).any():
        axis.plot(x[shown], theory[shown], color="0.5", lw=1, ls=":", label="on-policy, theory: Var / (n v²)")
    for i, curve in enumerate(result.curves):
        mse, se = curve.mse, curve.mse_se
        good = shown & np.isfinite(mse) & (mse > 0) & (curve.missing <= result.trials / 2)
        colour = COLOURS[i % len(COLOURS)]
        axis.plot(x[good], mse[good], color=colour, lw=1.8, marker="o", ms=3.5, label=curve.method)
        low = np.maximum(mse - se, mse / 10)
        axis.fill_between(x[good], low[good], (mse + se)[good], color=colour, alpha=0.18, lw=0)
    axis.set_xscale("log", base=10)
    axis.set_yscale("log", base=10)
    axis.set_xlabel("environment steps")
    axis.set_ylabel("mean squared error, relative to v²")
    axis.set_title(f"{result.domain}: {result.trials} trials, band ± 1 standard error", fontsize=11)
    axis.grid(True, which="major", color="0.9")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    save_figure(fig, path)
