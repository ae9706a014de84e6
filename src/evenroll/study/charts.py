"""Charts as values. The same charts become PNG and PDF figures and the interactive charts of the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evenroll.study.blocks import resolve
from evenroll.study.laws import ACTIONS, Laws, laws
from evenroll.study.palette import GREY, INK, LineStyle, look_of, second_look
from evenroll.study.published import published_curve
from evenroll.study.results import Results, on_policy_mse, statistic
from evenroll.study.targets import Line, Panel, PaperTarget, label

Y_LABELS = {
    "mse": "mean squared error / v²",
    "median": "squared error / v²: median, quartiles",
    "kl": "sampling error, KL",
    "grad_norm": "mean |∇ log-likelihood|",
    "ratio": "MSE / MSE of OS",
}


@dataclass(frozen=True)
class Series:
    """A line with a band, or points. `dash` is "" for what was run here, "published" or "theory" otherwise."""

    key: str  # series of one key are switched on and off together
    label: str
    look: LineStyle
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    dash: str = ""
    points: bool = False


@dataclass(frozen=True)
class Chart:
    """One pair of axes and the series on it."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = True
    log_y: bool = True


def charts(target: PaperTarget, results: Results) -> tuple[Chart, ...]:
    """The charts of a target, one for each panel."""
    if target.name == "theory":
        return theory_charts(laws())
    return tuple(_chart(panel, results) for panel in target.panels)


def _chart(panel: Panel, results: Results) -> Chart:
    if panel.sweeps:
        series = tuple(_sweeps(panel, results))
        return Chart(panel.title, panel.x_label, Y_LABELS["ratio"], series, panel.log_x, log_y=True)
    series = (*_theory(panel, results), *_lines(panel, results))
    return Chart(panel.title, panel.x_label, Y_LABELS[panel.quantity], series)


def _lines(panel: Panel, results: Results) -> Iterator[Series]:
    """What was run here and what was published of the same method. For panels of step sizes nothing is published."""
    many = panel.title.startswith("Step size")
    for line in panel.lines:
        look = look_of(line.method)
        y, low, high = statistic(results.curve(line), panel.quantity)
        x = results.steps(line)
        good = (x > 0) & np.isfinite(y) & (y > 0) & (results.curve(line).missing <= line.trials / 2)
        good &= np.isfinite(low) & np.isfinite(high)  # one estimate alone has no error: two trials, one without an episode
        yield Series(line.method, label(line.method), look, x[good], y[good], low[good], high[good])
        published = None if many else _published(panel, line)
        if published is not None:
            x, y = published
            good = (x > 0) & (y > 0)
            yield Series(line.method, f"{label(line.method)}, published", look, x[good], y[good], dash="published")


def _published(panel: Panel, line: Line) -> tuple[np.ndarray, np.ndarray] | None:
    """The authors' curve of the same domain with the same hyper-parameters, if there is one."""
    method = line.method if "/" in line.method else _usual(line.method)
    curve = published_curve(panel.domain, method)
    column = {"ratio": "", "median": "median"}.get(panel.quantity, panel.quantity)
    return (curve["steps"], curve[column]) if curve is not None and column in curve else None


def _usual(collect: str) -> str:
    """The method by which the paper names a way to collect."""
    return f"{collect}/{'ois' if collect.endswith('bpg') else 'mc'}"


def _theory(panel: Panel, results: Results) -> Iterator[Series]:
    """The line that on-policy Monte Carlo must follow."""
    if panel.quantity != "mse" or not panel.lines:
        return
    known, x = resolve(panel.lines[0].work).truth, results.steps(panel.lines[0])
    x = x[x > 0]
    if np.isfinite(known.variance):
        yield Series("theory", "on-policy theory, Var/(n v²)", LineStyle(GREY), x, on_policy_mse(known, x), dash="theory")


def _sweeps(panel: Panel, results: Results) -> Iterator[Series]:
    """One series for each sweep. A method's second sweep in the same panel has a look of its own."""
    x = np.array(panel.sweeps[0].x)
    yield Series("one", "no difference", LineStyle(GREY), x, np.ones(len(x)), dash="theory")
    seen: set[str] = set()
    for sweep in panel.sweeps:
        ratios = results.ratios(sweep)
        good = np.isfinite(ratios.ratio) & (ratios.ratio > 0) & np.isfinite(ratios.se)
        y, se = ratios.ratio[good], ratios.se[good]
        look = second_look(sweep.method) if sweep.method in seen else look_of(sweep.method)
        seen.add(sweep.method)
        yield Series(sweep.label, sweep.label, look, ratios.x[good], y, np.maximum(y - se, y / 10), y + se)


def theory_charts(found: Laws) -> tuple[Chart, ...]:
    """One chart for each statement of the paper: what it says, and what happens."""
    os, ros = (("os", "on-policy", look_of("os")), ("ros", "ROS, α → ∞", look_of("ros")))

    def both(x: np.ndarray, values: dict[str, np.ndarray], more: dict[str, str] | None = None) -> tuple[Series, ...]:
        return tuple(Series(k, name + (more or {}).get(k, ""), look, x, values[k]) for k, name, look in (os, ros))

    def rule(x: np.ndarray, y: float, name: str) -> Series:
        return Series(name, name, LineStyle(GREY), x, np.full(len(x), y), dash="theory")

    squared, printed, corrected = found.bounds.T
    x = np.maximum(squared, 1e-5)
    diagonal = np.array([1e-5, 10.0])
    slopes = {k: f", slope {v:.2f}" for k, v in found.slope.items()}
    error, *example = (np.array([number]) for number in found.counter_example)
    visits = found.visits.astype(float)
    return (
        Chart(
            "Proposition 1: the estimate after (a₀, a₀, a₁)", "more draws", "expected estimate",
            (rule(found.draws, 3.0, "truth, 3"), *both(found.draws.astype(float), found.after)), log_x=False, log_y=False,
        ),
        Chart(
            "Lemma 1: how far counts stray from visits·π", "visits", "largest |count − visits·π|",
            (rule(visits, len(ACTIONS) - 1.0, "bound, |A| − 1"), *both(visits, found.deviation)),
        ),
        Chart(
            "Theorem 1: state visitation, layered MDP", "trajectories", "largest |d_n − d_π|",
            both(found.episodes.astype(float), found.error),
        ),
        Chart("Theorem 2: KL of action frequencies", "visits", "KL", both(visits, found.kl, slopes)),
        Chart(
            "Theorem 3: squared error and its bounds", "squared error", "bound",
            (
                Series("diagonal", "bound = error", LineStyle(GREY), diagonal, diagonal, dash="theory"),
                Series("corrected", "corrected bound", LineStyle(GREY, "triangle"), x, corrected, points=True),
                Series("printed", "printed bound", LineStyle(INK, hollow=True), x, printed, points=True),
                Series("example", "counter-example, printed", LineStyle(INK, "cross"), error, example[0], points=True),
                Series("repaired", "counter-example, corrected", LineStyle(GREY, "diamond"), error, example[1], points=True),
            ),
        ),
    )  # fmt: skip
