"""Figures as PNG and PDF, in the paper's arrangement: panels in a row, logarithmic axes, one legend below."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.domains import bandit, gridworld
from evenroll.domains.catalogue import get_domain
from evenroll.files.safe_files import write_atomically
from evenroll.policies import TabularSoftmax
from evenroll.study.charts import Chart, charts
from evenroll.study.experiments import Scale, Target
from evenroll.study.results import Results
from evenroll.study.tables import markdown, table

WIDTH, HEIGHT = 3.35, 2.75  # inches, of a panel


def draw(target: Target, results: Results, directory: Path, scale: Scale) -> list[Path]:
    """The target's files, written: NAME.png and NAME.pdf, or NAME.md for a table."""
    if target.name.startswith("table"):
        path = directory / f"{target.name}.md"
        write_atomically(path, markdown(table(target, results), scale).encode())
        return [path]
    figure = domains_figure() if target.name == "fig5" else figure_of(charts(target, results), _subtitle(target, scale))
    return save(figure, directory / target.name)


def _subtitle(target: Target, scale: Scale) -> str:
    trials = {x.trials for panel in target.panels for x in panel.lines}
    trials |= {x.trials for panel in target.panels for x in panel.sweeps}
    if not trials:
        return target.title
    return f"{target.title}; {' and '.join(str(n) for n in sorted(trials))} trials, seed {scale.seed}"


def figure_of(parts: Sequence[Chart], title: str) -> Any:
    plt = _pyplot()
    rows = -(-len(parts) // 4)
    columns = -(-len(parts) // rows)
    figure, axes = plt.subplots(
        rows, columns, figsize=(WIDTH * columns, HEIGHT * rows + 0.75), layout="constrained", squeeze=False
    )
    for axis in axes.flat[len(parts) :]:
        axis.set_visible(False)
    handles: dict[str, Any] = {}
    same = all([s.label for s in part.series] == [s.label for s in parts[0].series] for part in parts) or rows == 1
    for axis, part in zip(axes.flat, parts, strict=False):
        found = _panel(axis, part)
        handles |= found
        if part.y_label != parts[0].y_label or axis is axes[0, 0] or not same:
            axis.set_ylabel(part.y_label, fontsize=8)
        if len({p.y_label for p in parts}) > 1:  # panels of different kinds carry their own legends
            axis.legend(found.values(), found.keys(), frameon=False, fontsize=6)
    if len({p.y_label for p in parts}) == 1:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 5), frameon=False, fontsize=7.5)  # fmt: skip  # noqa: E501
    figure.suptitle(title, fontsize=9.5)
    return figure


def _panel(axis: Any, chart: Chart) -> dict[str, Any]:
    handles = {}
    for series in chart.series:
        if series.points:
            handles[series.label] = axis.scatter(series.x, series.y, s=14, color=series.colour, alpha=0.8, lw=0, zorder=3)
            continue
        style = {"": "-", "published": (0, (4, 2)), "theory": ":"}[series.dash]
        (handles[series.label],) = axis.plot(
            series.x, series.y, color=series.colour, ls=style, lw=1.0 if series.dash else 1.6,
            marker=None if series.dash else "o", ms=2.2, alpha=0.7 if series.dash == "published" else 1.0,
        )  # fmt: skip
        if series.low is not None and series.high is not None:
            axis.fill_between(series.x, series.low, series.high, color=series.colour, alpha=0.2, lw=0)
    published = [name for name in handles if name.endswith(", published")]
    if len(published) > 1:  # one entry stands for all of them
        kept = handles[published[0]]
        handles = {k: v for k, v in handles.items() if k not in published} | {"dashed: published": kept}
    axis.set_xscale("log" if chart.log_x else "linear")
    axis.set_yscale("log" if chart.log_y else "linear")
    _few_ticks(axis, chart)
    axis.set_xlabel(chart.x_label, fontsize=8)
    axis.set_title(chart.title, fontsize=8.5)
    axis.tick_params(labelsize=7, which="both")
    axis.grid(True, which="major", color="0.92")
    axis.spines[["top", "right"]].set_visible(False)
    return handles


def _few_ticks(axis: Any, chart: Chart) -> None:
    """Decades only; where there are fewer than two, 1, 2 and 5, written out."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator

    for which, log, limits in ((axis.xaxis, chart.log_x, axis.get_xlim()), (axis.yaxis, chart.log_y, axis.get_ylim())):
        if log:
            which.minorticks_off()
            if limits[1] / limits[0] < 30.0:
                which.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                which.set_major_formatter(FormatStrFormatter("%g"))


def domains_figure() -> Any:
    """Fig 5: the bandit's arms, the grid with its rewards, the pole, and what the evaluated policies do there."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", width_ratios=(1.5, 1, 1))
    _draw_bandit(axes[0])
    _draw_grid(axes[1])
    _draw_pole(axes[2])
    return figure


def _draw_bandit(axis: Any) -> None:
    means, scales = bandit.draw_arms(np.random.RandomState(0))
    policy = get_domain("bandit").policy()
    assert isinstance(policy, TabularSoftmax)
    arms = np.arange(len(means))
    axis.bar(arms, 2 * scales, bottom=means - scales, color="#4477aa", alpha=0.3, width=0.8, label="reward, mean ± scale")
    axis.plot(arms, means, "k.", ms=4)
    axis.bar(arms, policy.table[0], color="#e0534f", width=0.4, label="π(arm)")
    axis.set_title("Bandit: 30 arms", fontsize=9.5)
    axis.set_xlabel("arm", fontsize=8)
    axis.legend(frameon=False, fontsize=7.5, loc="upper right")
    axis.set_ylim(-0.9, 2.3)
    axis.tick_params(labelsize=7)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_grid(axis: Any) -> None:
    cells, rewards = gridworld.tables()
    policy = get_domain("gridworld").policy()
    assert isinstance(policy, TabularSoftmax)
    entered = {int(c): float(r) for s in range(16) for c, r in zip(cells[s], rewards[s], strict=True) if int(c) != s}
    for s in range(16):
        x, y = s % 4, s // 4
        reward = entered.get(s)
        shade = {10.0: "#cfe8d2", -10.0: "#f7cfcd", 1.0: "#e3eefb"}.get(reward if reward is not None else 0.0, "white")
        axis.add_patch(_pyplot().Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=shade, edgecolor="0.6"))
        text = "start" if s == 0 else f"{reward:+g}" if reward is not None else ""
        axis.text(x - 0.44, y + 0.44, text, fontsize=6.5, color="0.35", va="top")
        if s == gridworld.GOAL:
            continue
        for action in range(4):  # a ray as long as the action is likely
            there, size = int(cells[s, action]), 0.5 * float(policy.table[s, action])
            axis.plot([x, x + (there % 4 - x) * size], [y, y + (there // 4 - y) * size], color="#e0534f", lw=3)
    axis.set(xlim=(-0.55, 3.55), ylim=(-0.55, 3.55), aspect="equal")
    axis.set_title("GridWorld: reward of the cell entered;\nrays: π, as long as likely", fontsize=9.5)
    axis.axis("off")


def _draw_pole(axis: Any) -> None:
    plt = _pyplot()
    axis.plot([-2.4, 2.4], [0, 0], color="0.5", lw=1)
    axis.add_patch(plt.Rectangle((-0.35, 0), 0.7, 0.35, color="0.3"))
    axis.plot([0, 0.28], [0.35, 1.85], color="#d9a520", lw=5, solid_capstyle="round")
    axis.annotate("", (-1.3, 0.18), (-0.4, 0.18), arrowprops={"arrowstyle": "->", "color": "#e0534f"})
    axis.annotate("", (1.3, 0.18), (0.4, 0.18), arrowprops={"arrowstyle": "->", "color": "#e0534f"})
    axis.text(0, -0.3, "CartPole: push left or right (10 N)", ha="center", fontsize=7.5)
    axis.text(0, -0.6, "CartPoleContinuous: force 30·a, a ~ Gaussian", ha="center", fontsize=7.5)
    axis.set(xlim=(-2.5, 2.5), ylim=(-0.8, 2.2), aspect="equal")
    axis.set_title("CartPole: +1 per step until it falls;\n200 steps at most", fontsize=9.5)
    axis.axis("off")


def save(figure: Any, path: Path) -> list[Path]:
    """PATH.png and PATH.pdf, without dates in them."""
    paths = []
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once, for both files
    for kind, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None, "Producer": None, "Creator": None})):
        data = io.BytesIO()
        figure.savefig(data, format=kind, dpi=150, metadata=metadata)
        paths.append(path.with_suffix(f".{kind}"))
        write_atomically(paths[-1], data.getvalue())
    _pyplot().close(figure)
    return paths


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
