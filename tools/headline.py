"""The picture at the top of the README: python tools/headline.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from evenroll.domains import DOMAINS
from evenroll.plots import COLOURS
from evenroll.study import compare

METHODS = {"os/mc": "on-policy", "bpg/ois": "BPG", "ros/mc": "ROS, tuned", "auto/mc": "auto"}
OUT = Path(__file__).parents[1] / "docs" / "images" / "mse.png"


def main() -> None:
    fig, axes = plt.subplots(1, 4, figsize=(13, 3.3), layout="constrained")
    for axis, name in zip(axes, DOMAINS, strict=True):
        result = compare(name, list(METHODS), trials=200)
        x = np.array(result.checkpoints, dtype=float)
        axis.plot(x, result.on_policy_theory(), ":", color="0.5", lw=1, label="on-policy, theory")
        for curve, label, colour in zip(
            result.curves, METHODS.values(), (*COLOURS[:1], *COLOURS[2:3], *COLOURS[1:2], *COLOURS[3:4]), strict=True
        ):
            good = curve.missing <= result.trials / 2
            axis.plot(x[good], curve.mse[good], color=colour, lw=1.8, label=label)
            low, high = np.maximum(curve.mse - curve.mse_se, curve.mse / 10), curve.mse + curve.mse_se
            axis.fill_between(x[good], low[good], high[good], color=colour, alpha=0.2, lw=0)
        axis.set(xscale="log", yscale="log", title=name, xlabel="environment steps")
        axis.grid(True, color="0.92")
        axis.spines[["top", "right"]].set_visible(False)
        print(
            name, f"{result.seconds:.0f} s", {c.method: float(c.mse[-1] / result.curves[0].mse[-1]) for c in result.curves}
        )
    axes[0].set_ylabel("mean squared error / v²")
    axes[0].legend(frameon=False, fontsize=8)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()
