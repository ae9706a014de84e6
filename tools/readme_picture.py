"""The README's picture: what is left of the squared error of 64 ordinary episodes when evenroll collects and estimates.

    python tools/how_good.py --episodes 32 64 --repeats 200 --json docs/data/how_good.json
    python -m tools.readme_picture docs/data/how_good.json

It writes docs/images/tasks-light.svg, tasks-dark.svg and tasks.png, from records of tools/how_good.py alone: a task is drawn
if there is a record of `auto` with the default estimate. Bars are mean squared errors relative to Var/n, which is what the
mean of n independent on-policy episodes has, so that its bar is 1 by definition; the whiskers are ± 2 standard errors.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tools.docs_figures import BALANCED, IMAGES, INK, POLICY, save, style

EDGE = 1.04  # where the words begin: right of the bar of the on-policy mean


def records(files: list[Path], episodes: int) -> dict[str, tuple[float, float]]:
    """{task: (ratio, standard error)} of the default estimate with `auto`, in the order in which tasks occur."""
    found = {}
    for file in files:
        for record in json.loads(file.read_text()):
            if (record["sampler"].partition(":")[0], record["estimate"], record["episodes"]) == ("auto", "score", episodes):
                found[record["task"]] = record["ratio"], record["ratio_se"]
    return found


def picture(tasks: dict[str, tuple[float, float]], episodes: int, scheme: str) -> Any:
    figure, axis = plt.subplots(figsize=(7.6, 0.42 * len(tasks) + 1.2), layout="constrained")
    rows = np.arange(len(tasks))
    ratios, errors = np.array(list(tasks.values())).T
    ordinary = f"mean of {episodes} ordinary episodes"
    axis.barh(rows, np.ones(len(tasks)), 0.62, color=POLICY[scheme], alpha=0.3, label=ordinary)
    axis.barh(rows, ratios, 0.62, color=BALANCED[scheme], label=f"evenroll, {episodes} episodes")
    axis.hlines(rows, np.maximum(ratios - 2 * errors, 0.0), ratios + 2 * errors, color=INK[scheme][0], lw=1.0)
    for row, ratio, error in zip(rows, ratios, errors, strict=True):
        worth = f"{float(f'{episodes / ratio:.2g}'):,.0f}"
        axis.text(max(ratio + 2 * error + 0.02, EDGE), row, f"as good as {worth} ordinary ones", va="center", fontsize=9)
    axis.set_yticks(rows, list(tasks))
    axis.invert_yaxis()
    axis.set_xlim(0.0, max(EDGE, (ratios + 2 * errors).max() + 0.02) + 0.56)
    axis.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0])
    axis.tick_params(axis="y", length=0)
    axis.grid(False, axis="y")
    axis.set_xlabel("squared error that is left", loc="left")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--tasks", nargs="+", help="which, and in which order; else all, the largest gain first")
    arguments = parser.parse_args()
    found = records(arguments.files, arguments.episodes)
    by_gain = sorted(found, key=lambda task: found[task])
    chosen = {task: found[task] for task in arguments.tasks or by_gain}
    if not chosen:
        raise SystemExit(f"no record of auto with the default estimate at {arguments.episodes} episodes")
    for scheme in INK:
        with plt.rc_context(style(scheme) | {"axes.spines.left": False, "axes.axisbelow": True}):
            figure = picture(chosen, arguments.episodes, scheme)
            if scheme == "light":
                figure.savefig(IMAGES / "tasks.png", dpi=160, facecolor="white", metadata={"Software": None})
            save(figure, "tasks", scheme)


if __name__ == "__main__":
    main()
