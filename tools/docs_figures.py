"""The pictures of the documentation, each in a light and a dark variant: docs/images/NAME-light.svg and NAME-dark.svg.

    evenroll reproduce fig2 --out reproduction              # four minutes on two cores
    python tools/docs_figures.py reproduction/report.html

mse          the charts of figure 2, read from the page that `evenroll reproduce` has made; they are made only if that
             page is given, and mse.png is the light variant, for the README
gain         κ of `auto` against steps per direction
regression   returns against the luck of the actions, on-policy and balanced; its numbers are printed for docs/intervals.md
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import evenroll
from evenroll.estimators.corrections import best_way
from evenroll.estimators.score_regression import action_parts, regress
from evenroll.samplers.auto_network import GAIN_NETWORK, gain

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

IMAGES = Path(__file__).parents[1] / "docs" / "images"
INK = {"light": ("#1b1f24", "#dfe3e8"), "dark": ("#d5d9e0", "#454a58")}  # text and axes, grid
POLICY, BALANCED = {"light": "#3a6ea5", "dark": "#79b0ee"}, {"light": "#8552c4", "dark": "#c9a3f2"}
METHODS = {  # colours by method; on-policy and balanced as in docs/assets/extra.css
    "os/mc": POLICY,
    "auto/mc": BALANCED,
    "ros/mc": {"light": "#cf4a45", "dark": "#ff7b72"},
    "bpg/ois": {"light": "#2f8a4a", "dark": "#6fce8b"},
    "theory": {"light": "#77808a", "dark": "#9aa4ae"},
}


def main(report: str | None = None) -> None:
    data = regression_data()
    for scheme in INK:
        with plt.rc_context(style(scheme)):
            save(gain_figure(scheme), "gain", scheme)
            save(regression_figure(data, scheme), "regression", scheme)
            if report is not None:
                figure = mse_figure(charts_of(Path(report)), scheme)
                if scheme == "light":
                    figure.savefig(IMAGES / "mse.png", dpi=160, facecolor="white", metadata={"Software": None})
                save(figure, "mse", scheme)


def style(scheme: str) -> dict[str, Any]:
    """How all pictures of the documentation look."""
    ink, grid = INK[scheme]
    return {
        "font.size": 10, "axes.labelsize": 10, "axes.titlesize": 11, "legend.fontsize": 10, "text.color": ink,
        "axes.labelcolor": ink, "axes.edgecolor": ink, "xtick.color": ink, "ytick.color": ink, "grid.color": grid,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "svg.hashsalt": "evenroll",
        "svg.fonttype": "path",
    }  # fmt: skip


def save(figure: Any, name: str, scheme: str) -> None:
    figure.savefig(IMAGES / f"{name}-{scheme}.svg", transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)


# ---- figure 2 ------------------------------------------------------------------------------------------------------


def charts_of(report: Path) -> list[dict[str, Any]]:
    """The charts of fig2 as the page carries them."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', report.read_text(encoding="utf-8"), re.S)
    assert found is not None, f"{report} has no charts"
    return next(section["charts"] for section in json.loads(found[1])["sections"] if section["name"] == "fig2")


def mse_figure(charts: list[dict[str, Any]], scheme: str) -> Any:
    """Four panels, two by two, so that the text is as large as that of the page."""
    figure, axes = plt.subplots(2, 2, figsize=(7.6, 6.2), layout="constrained")
    handles: dict[str, Any] = {}
    for axis, chart in zip(axes.flat, charts, strict=True):
        for series in chart["series"]:
            colour = METHODS[series["key"] if series["key"] in METHODS else "theory"][scheme]
            x, y = np.array(series["x"], float), np.array(series["y"], float)
            if series["dash"]:
                theory = series["dash"] == "theory"
                (line,) = axis.plot(x, y, color=colour, lw=1.2, ls=":" if theory else (0, (4, 2)), alpha=0.8)
                if theory:
                    handles.setdefault("on-policy theory, Var/(n v²)", line)
                else:  # dashed lines have the colours of their methods
                    handles.setdefault(
                        "dashed: as published", Line2D([], [], color=METHODS["theory"][scheme], lw=1.2, ls="--")
                    )
                continue
            under = series["key"] == "os/mc"  # broad and below the others, because BPG's line lies on it
            (line,) = axis.plot(
                x, y, color=colour, lw=6 if under else 2, alpha=0.5 if under else 1.0, marker="" if under else "o", ms=3,
                zorder=1.5 if under else 2,
            )  # fmt: skip
            axis.fill_between(x, series["low"], series["high"], color=colour, alpha=0.2, lw=0)
            handles[series["label"]] = line
        axis.set(title=chart["title"], xscale="log", yscale="log")
        axis.minorticks_off()
    for axis in axes[1]:
        axis.set_xlabel("environment steps")
    for axis in axes[:, 0]:
        axis.set_ylabel("mean squared error / v²")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)
    return figure


# ---- the gain of `auto` --------------------------------------------------------------------------------------------


def gain_figure(scheme: str, directions: int = 65) -> Any:
    steps = np.geomspace(0.2 * directions, 4096 * directions, 300)
    kappa = np.array([gain(float(directions), k, 1.0) * directions for k in steps])
    formula = GAIN_NETWORK * np.minimum(1.0, np.minimum(2.0 * np.sqrt(directions / steps), 32.0 * directions / steps))
    figure, axis = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
    axis.loglog(steps / directions, formula, ls=":", lw=1.5, color=METHODS["theory"][scheme])
    axis.loglog(steps / directions, kappa, lw=2.2, color=BALANCED[scheme])
    for at, text in ((0.75, "k = ¾ D"), (4.0, "k = 4 D"), (256.0, "k = 256 D")):
        axis.axvline(at, lw=1, ls="--", color=METHODS["theory"][scheme])
        axis.annotate(text, (at, 0.0035), xytext=(4, 0), textcoords="offset points", rotation=90, va="bottom", fontsize=9)
    for at, height, text in ((1.7, 0.4, f"{GAIN_NETWORK:g}"), (48, 0.17, "falls as 1/√k"), (1700, 0.018, "falls as 1/k")):
        axis.annotate(text, (at, height), ha="center")
    axis.set(xlabel="steps per direction, k/D", ylabel="κ", ylim=(3e-3, 1.0), xticks=[1, 4, 16, 64, 256, 1024, 4096])
    axis.set_xticklabels(["1", "4", "16", "64", "256", "1,024", "4,096"])
    axis.minorticks_off()
    return figure


# ---- the regression behind the intervals ---------------------------------------------------------------------------


def regression_data(episodes: int = 300, seed: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray, Any]]:
    """sampler → (C, G, the regression) on the built-in cartpole."""
    domain = evenroll.get_domain("cartpole")
    policy = domain.policy()
    result = {}
    for sampler in ("os", "auto"):
        chosen = evenroll.OnPolicy() if sampler == "os" else evenroll.Auto()
        driver = evenroll.Driver(policy, chosen, (seed,), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
        data = driver.run(domain.trial_environment((seed,)), episodes=episodes)
        part = action_parts(data, policy)[0]
        fit = regress(data.returns, [part])
        usual = 1.96 * data.returns.std(ddof=1) / math.sqrt(episodes)
        print(
            f"{sampler}: mean {data.returns.mean():.2f}, v̂ {fit.value:.2f}, b {fit.imbalance:+.2f}, s {fit.error:.3f}, "
            f"1.96 std/√n {usual:.2f}, explained {fit.explained:.0%}"
        )
        result[sampler] = part.apart[:, best_way(data.returns, part.apart)[0]], data.returns, fit
    return result


def regression_figure(data: dict[str, tuple[np.ndarray, np.ndarray, Any]], scheme: str) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.4), layout="constrained", sharex=True, sharey=True)
    titles = {"os": "on-policy (os)", "auto": "balanced (auto)"}
    for axis, (sampler, (luck, returns, fit)) in zip(axes, data.items(), strict=True):
        colour = (POLICY if sampler == "os" else BALANCED)[scheme]
        axis.scatter(luck, returns, s=12, alpha=0.6, lw=0, color=colour)
        ends = np.array([luck.min(), luck.max()])
        centred = luck - luck.mean()
        slope = float(centred @ returns) / float(centred @ centred)
        axis.plot(ends, fit.value + slope * ends, lw=1.8, color=INK[scheme][0])
        axis.plot([0.0], [fit.value], marker="o", ms=7, mfc="none", mew=1.8, color=INK[scheme][0])
        axis.annotate("v̂", (0.0, fit.value), xytext=(-16, 6), textcoords="offset points", fontsize=12)
        axis.axvline(0.0, lw=1, ls="--", color=METHODS["theory"][scheme])
        axis.set(title=titles[sampler], xlabel="C, the luck of the actions")
    axes[0].set_ylabel("return G")
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:])
