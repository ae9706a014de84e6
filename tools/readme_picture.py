"""The README's picture: the same 64 episodes, as a plain on-policy mean, with ROS, and with evenroll.

    python tools/how_good.py --episodes 64 --repeats 200 --sampler auto --json auto.json
    python tools/how_good.py --episodes 64 --repeats 200 --sampler ros --json ros.json
    python tools/how_good.py --episodes 64 --repeats 200 --sampler os --json os.json
    python -m tools.readme_picture auto.json ros.json os.json

It writes docs/images/tasks-light.svg, tasks-dark.svg and tasks.png, from records of tools/how_good.py alone: a task is drawn
if there is a record of `auto` with the default estimate. ROS has no bar without a record, and the on-policy mean has 1,
which is what it has by definition. The bars are mean squared errors relative to Var/n, which is what the mean of n independent on-policy episodes has; the whiskers are ± 2 standard
errors.
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

from tools.docs_figures import BALANCED, IMAGES, INK, METHODS, POLICY, save, style

BARS = {  # what a bar is called: (sampler, estimate, colours)
    "on-policy, plain mean": ("os", "mc", POLICY),
    "robust on-policy sampling (ROS)": ("ros", "mc", METHODS["ros/mc"]),
    "evenroll": ("auto", "score", BALANCED),
}


def records(files: list[Path], episodes: int) -> dict[str, dict[str, tuple[float, float]]]:
    """{task: {bar: (ratio, standard error)}}, in the order in which tasks occur."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for file in files:
        for record in json.loads(file.read_text()):
            for name, (sampler, estimate, _) in BARS.items():
                how = (record["sampler"].partition(":")[0], record["estimate"], record["episodes"])
                if how == (sampler, estimate, episodes):
                    found.setdefault(record["task"], {})[name] = (record["ratio"], record["ratio_se"])
    drawn = {task: bars for task, bars in found.items() if "evenroll" in bars}
    for bars in drawn.values():
        bars.setdefault("on-policy, plain mean", (1.0, 0.0))  # by definition
    return drawn


def picture(tasks: dict[str, dict[str, tuple[float, float]]], episodes: int, scheme: str) -> Any:
    figure, axis = plt.subplots(figsize=(7.6, 0.72 * len(tasks) + 1.3), layout="constrained")
    height, longest = 0.25, max(min(r + 2 * e, 1.6) for bars in tasks.values() for r, e in bars.values())
    named: set[str] = set()
    for row, bars in enumerate(tasks.values()):
        for i, (name, (_, _, colours)) in enumerate(BARS.items()):
            if name not in bars:
                continue
            ratio, error = bars[name]
            y = row + (i - 1) * (height + 0.03)
            axis.barh(y, ratio, height, color=colours[scheme], label=None if name in named else name)
            named.add(name)
            axis.plot([max(ratio - 2 * error, 0.0), ratio + 2 * error], [y, y], color=INK[scheme][0], lw=1.0)
            worth = f", worth {float(f'{episodes / ratio:.2g}'):,.0f} episodes" if name == "evenroll" else ""
            axis.text(ratio + 2 * error + 0.015, y, f"{ratio:.2f}{worth}", va="center", fontsize=9)
    axis.axvline(1.0, color=INK[scheme][0], lw=0.8, ls=":")
    axis.set_yticks(np.arange(len(tasks)), list(tasks))
    axis.invert_yaxis()
    axis.set_xlim(0.0, longest + 0.28)
    axis.tick_params(axis="y", length=0)
    axis.grid(False, axis="y")
    axis.set_xlabel(f"squared error of {episodes} episodes (1: the mean of independent on-policy ones)")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--tasks", nargs="+", help="which, and in which order; else all, the largest gain first")
    arguments = parser.parse_args()
    found = records(arguments.files, arguments.episodes)
    by_gain = sorted(found, key=lambda task: found[task]["evenroll"])
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
