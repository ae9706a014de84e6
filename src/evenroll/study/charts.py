"""What is drawn, before it is drawn: the same charts become PNG and PDF figures and the page's interactive ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evenroll.study.blocks import resolve
from evenroll.study.curve import Curve
from evenroll.study.experiments import Line, Panel, Target, label
from evenroll.study.laws import ACTIONS, Laws, laws
from evenroll.study.published import published_curve
from evenroll.study.results import Results

# One colour per way to collect, in every figure; they can be told apart on white and on black, and by the colour-blind.
COLOURS = {
    "os/mc": "#4477aa", "bpg/ois": "#3a9a55", "ros/mc": "#e0534f", "auto/mc": "#9a6fd0", "os/wris": "#66aaee",
    "bpg/wris": "#88c070", "ros/wris": "#f0a050", "auto/wris": "#c79fe8", "init+os/mc": "#3fb0c4",
    "init+os/wis+mc": "#d9a520", "os/fqe": "#66aaee", "bpg/fqe": "#88c070", "ros/fqe": "#f0a050", "auto/fqe": "#c79fe8",
    "bpg/mc": "#3a9a55", "os/fqe-net": "#d9a520",
}  # fmt: skip
SPARE = ("#4477aa", "#3fb0c4", "#3a9a55", "#d9a520", "#f0a050", "#e0534f", "#9a6fd0", "#8a8a8a")
SHADES = (("#e0534f", "#f0a050"), ("#9a6fd0", "#c79fe8"), ("#3a9a55", "#88c070"), ("#4477aa", "#66aaee"))  # two a method
GREY = "#8a8a8a"
Y_LABELS = {
    "mse": "mean squared error / v²",
    "median": "squared error / v²: median, quartiles",
    "kl": "sampling error, KL",
    "grad_norm": "mean |∇ log-likelihood|",
    "ratio": "MSE / MSE of OS",
}


@dataclass(frozen=True)
class Series:
    """A line with a band, or points. `dash`: "" ours, "published" or "theory"."""

    key: str  # series of one key are toggled together
    label: str
    colour: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    dash: str = ""
    points: bool = False


@dataclass(frozen=True)
class Chart:
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = True
    log_y: bool = True


def charts(target: Target, results: Results) -> tuple[Chart, ...]:
    if target.name == "theory":
        return theory_charts(laws())
    return tuple(_chart(panel, results) for panel in target.panels)


def _chart(panel: Panel, results: Results) -> Chart:
    if panel.sweeps:
        series = tuple(_sweeps(panel, results))
        return Chart(panel.title, panel.x_label, Y_LABELS["ratio"], series, panel.log_x, log_y=True)
    series = (*_theory(panel, results), *_lines(panel, results))
    return Chart(panel.title, panel.x_label, Y_LABELS[panel.quantity], series)


def colour(method: str, place: int) -> str:
    plain = method.removeprefix("init+")
    whole = plain if "/" in plain else f"{plain}/{'ois' if plain == 'bpg' else 'mc'}"
    whole = whole.replace("fqe-net-small", "mc")
    return COLOURS.get(method) or COLOURS.get(whole) or SPARE[place % len(SPARE)]


def _lines(panel: Panel, results: Results) -> Iterator[Series]:
    many = panel.title.startswith("Step size")
    for i, line in enumerate(panel.lines):
        shade = SPARE[i % len(SPARE)] if many and line.method.startswith("ros:") else colour(line.method, i)
        y, low, high = statistic(results.curve(line), panel.quantity)
        x = results.steps(line)
        good = (x > 0) & np.isfinite(y) & (y > 0) & (results.curve(line).missing <= line.trials / 2)
        yield Series(line.method, label(line.method), shade, x[good], y[good], low[good], high[good])
        published = None if many else _published(panel, line)
        if published is not None:
            x, y = published
            good = (x > 0) & (y > 0)
            yield Series(line.method, f"{label(line.method)}, published", shade, x[good], y[good], dash="published")


def statistic(curve: Curve, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(line, lower and upper edge of its band): mean ± one standard error, or median and quartiles."""
    if quantity == "median":
        return curve.quantile(0.5), curve.quantile(0.25), curve.quantile(0.75)
    if quantity == "mse":
        mean, se = curve.mse, curve.mse_se
    else:
        mean, se = curve.over_trials(curve.estimates)
    return mean, np.maximum(mean - se, mean / 10), mean + se


def _published(panel: Panel, line: Line) -> tuple[np.ndarray, np.ndarray] | None:
    """The authors' curve of the same thing, if there is one: same domain, same hyper-parameters."""
    method = line.method if "/" in line.method else _usual(line.method)
    found = published_curve(panel.domain, method)
    column = {"ratio": "", "median": "median"}.get(panel.quantity, panel.quantity)
    return (found["steps"], found[column]) if found is not None and column in found else None


def _usual(collect: str) -> str:
    """The method by which the paper names a way to collect."""
    return f"{collect}/{'ois' if collect.endswith('bpg') else 'mc'}"


def _theory(panel: Panel, results: Results) -> Iterator[Series]:
    """Var[return] / (n v²): what on-policy Monte Carlo must show."""
    if panel.quantity != "mse" or not panel.lines:
        return
    known, x = resolve(panel.lines[0].work).truth, results.steps(panel.lines[0])
    x = x[x > 0]
    if np.isfinite(known.variance):
        y = known.variance * known.mean_length / (x * known.value**2)
        yield Series("theory", "on-policy theory, Var/(n v²)", GREY, x, y, dash="theory")


def _sweeps(panel: Panel, results: Results) -> Iterator[Series]:
    x = np.array(panel.sweeps[0].x)
    yield Series("one", "no difference", GREY, x, np.ones(len(x)), dash="theory")
    for sweep in panel.sweeps:
        found = results.ratios(sweep)
        good = np.isfinite(found.ratio) & (found.ratio > 0)
        y, se = found.ratio[good], found.se[good]
        mine = [s.label for s in panel.sweeps if s.method == sweep.method]
        methods = list(dict.fromkeys(s.method for s in panel.sweeps))
        shade = SHADES[methods.index(sweep.method) % len(SHADES)][mine.index(sweep.label) % 2]
        yield Series(sweep.label, sweep.label, shade, found.x[good], y, np.maximum(y - se, y / 10), y + se)


def theory_charts(found: Laws) -> tuple[Chart, ...]:
    os, ros = (("os", "on-policy", COLOURS["os/mc"]), ("ros", "ROS, α → ∞", COLOURS["ros/mc"]))

    def both(x: np.ndarray, values: dict[str, np.ndarray], more: dict[str, str] | None = None) -> tuple[Series, ...]:
        return tuple(Series(k, name + (more or {}).get(k, ""), c, x, values[k]) for k, name, c in (os, ros))

    def rule(x: np.ndarray, y: float, name: str) -> Series:
        return Series(name, name, GREY, x, np.full(len(x), y), dash="theory")

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
        Chart("Theorem 2: KL of action frequencies", "visits", "KL", both(visits, found.kl, slopes)),
        Chart(
            "Theorem 1: state visitation, layered MDP", "trajectories", "largest |d_n − d_π|",
            both(found.episodes.astype(float), found.error),
        ),
        Chart(
            "Theorem 3: squared error and its bounds", "squared error", "bound",
            (
                Series("diagonal", "bound = error", GREY, diagonal, diagonal, dash="theory"),
                Series("corrected", "corrected bound", COLOURS["ros/mc"], x, corrected, points=True),
                Series("printed", "printed bound", COLOURS["os/mc"], x, printed, points=True),
                Series("counter", "counter-example, printed", "#d9a520", error, example[0], points=True),
                Series("counter", "counter-example, corrected", "#3a9a55", error, example[1], points=True),
            ),
        ),
    )  # fmt: skip
