"""Figures as PNG and PDF. Two panels stand in a row, so that labels can be read where a page shows the figure."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenroll.files.safe_files import write_atomically
from evenroll.study.charts import Chart, charts
from evenroll.study.domain_pictures import domains_figure, pyplot
from evenroll.study.experiments import Scale
from evenroll.study.palette import INK, LineStyle
from evenroll.study.results import Results
from evenroll.study.tables import markdown, table
from evenroll.study.targets import PaperTarget

WIDTH, HEIGHT = 4.2, 3.0  # inches, of a panel
SMALL, MEDIUM, LARGE = 8.5, 9.0, 10.0  # points, of text
MARKERS = {"disc": "o", "square": "s", "triangle": "^", "diamond": "D", "cross": "X", "down": "v"}
LINES: dict[str, Any] = {"": "-", "published": (0, (4, 2)), "theory": ":"}


def draw(target: PaperTarget, results: Results, directory: Path, scale: Scale) -> list[Path]:
    """Write the target's files: NAME.png and NAME.pdf, or NAME.md for a table."""
    if target.name.startswith("table"):
        path = directory / f"{target.name}.md"
        write_atomically(path, markdown(table(target, results), scale).encode())
        return [path]
    figure = domains_figure() if target.name == "fig5" else figure_of(charts(target, results), _subtitle(target, scale))
    return save(figure, directory / target.name)


def _subtitle(target: PaperTarget, scale: Scale) -> str:
    trials = {x.trials for panel in target.panels for x in panel.lines}
    trials |= {x.trials for panel in target.panels for x in panel.sweeps}
    if not trials:
        return target.title
    return f"{target.title}; {' and '.join(str(n) for n in sorted(trials))} trials, seed {scale.seed}"


def figure_of(parts: Sequence[Chart], title: str) -> Any:
    """The charts as panels of one figure. Charts of one kind share a legend; charts of several kinds have one each."""
    columns = min(len(parts), 2)
    rows = -(-len(parts) // columns)
    size = (WIDTH * columns, HEIGHT * rows + 0.9)
    figure, axes = pyplot().subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat[len(parts) :]:
        axis.set_visible(False)
    one_kind = len({part.y_label for part in parts}) == 1
    handles: dict[str, Any] = {}
    for axis, part in zip(axes.flat, parts, strict=False):
        entries = _panel(axis, part)
        handles |= entries
        if axis in axes[:, 0] or not one_kind:
            axis.set_ylabel(part.y_label, fontsize=MEDIUM)
        if not one_kind:
            axis.legend(entries.values(), entries.keys(), frameon=False, fontsize=7.5)
    if one_kind:
        handles = dict(sorted(handles.items(), key=lambda item: item[0] == "published"))  # "published" comes last
        wide = max(len(name) for name in handles) > 18
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 3 if wide else 4),
            frameon=False, fontsize=SMALL,
        )  # fmt: skip
    figure.suptitle(title, fontsize=LARGE)
    return figure


def _panel(axis: Any, chart: Chart) -> dict[str, Any]:
    """Draw one chart, and return the legend's entries by their labels."""
    from matplotlib.lines import Line2D

    handles: dict[str, Any] = {}
    for series in chart.series:
        colour, marker = series.look.colour.light, MARKERS[series.look.marker]
        if series.points:
            large = 60 if len(series.x) == 1 else 14
            handles[series.label] = axis.scatter(series.x, series.y, s=large, marker=marker, zorder=3, **_fill(series.look))
            continue
        (drawn,) = axis.plot(
            series.x, series.y, color=colour, ls=LINES[series.dash], lw=1.0 if series.dash else 1.6,
            marker=None if series.dash else marker, ms=3.4, mfc="white" if series.look.hollow else colour, mew=1.0,
            alpha=0.7 if series.dash == "published" else 1.0,
        )  # fmt: skip
        if series.dash == "published":  # one entry of no colour stands for all of them
            handles["published"] = Line2D([], [], color=INK.light, ls=LINES["published"], lw=1.0)
        else:
            handles[series.label] = drawn
        if series.low is not None and series.high is not None:
            axis.fill_between(series.x, series.low, series.high, color=colour, alpha=0.18, lw=0)
    axis.set_xscale("log" if chart.log_x else "linear")
    axis.set_yscale("log" if chart.log_y else "linear")
    _few_ticks(axis, chart)
    axis.set_xlabel(chart.x_label, fontsize=MEDIUM)
    axis.set_title(chart.title, fontsize=LARGE)
    axis.tick_params(labelsize=SMALL, which="both")
    axis.grid(True, which="major", color="0.92")
    axis.spines[["top", "right"]].set_visible(False)
    return handles


def _fill(look: LineStyle) -> dict[str, Any]:
    if look.hollow:
        return {"facecolors": "none", "edgecolors": look.colour.light, "linewidths": 0.8}
    return {"color": look.colour.light, "alpha": 0.8, "lw": 0}


def _few_ticks(axis: Any, chart: Chart) -> None:
    """Put ticks at decades only. Where there are fewer than two decades, ticks at 1, 2 and 5 are written out."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator

    for which, log, limits in ((axis.xaxis, chart.log_x, axis.get_xlim()), (axis.yaxis, chart.log_y, axis.get_ylim())):
        if log:
            which.minorticks_off()
            if limits[1] / limits[0] < 30.0:
                which.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                which.set_major_formatter(FormatStrFormatter("%g"))


def save(figure: Any, path: Path) -> list[Path]:
    """Write PATH.png and PATH.pdf. They hold no dates, so the same results give the same bytes."""
    paths = []
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once, for both files
    for kind, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None, "Producer": None, "Creator": None})):
        data = io.BytesIO()
        figure.savefig(data, format=kind, dpi=150, metadata=metadata)
        paths.append(path.with_suffix(f".{kind}"))
        write_atomically(paths[-1], data.getvalue())
    pyplot().close(figure)
    return paths
