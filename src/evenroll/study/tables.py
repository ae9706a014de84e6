"""Tables 3 and 4: final errors, published and measured, and their ratios with uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenroll.study.blocks import resolve
from evenroll.study.experiments import Scale, Target, label
from evenroll.study.published import published_final
from evenroll.study.results import Results

Z = 1.96  # of a 95 % interval


@dataclass(frozen=True)
class Number:
    """A positive number with a standard error; nan where there is none."""

    value: float
    se: float

    def over(self, other: Number) -> Ratio:
        if not (self.value > 0 and other.value > 0):
            return Ratio(math.nan, math.nan, math.nan)
        spread = Z * math.hypot(self.se / self.value, other.se / other.value)
        ratio = self.value / other.value
        return Ratio(ratio, ratio * math.exp(-spread), ratio * math.exp(spread))


@dataclass(frozen=True)
class Ratio:
    """With a 95 % interval, symmetric on the logarithmic scale: squared errors are skewed."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Cell:
    method: str
    domain: str
    measured: Number
    published: Number | None
    against_os: Ratio  # measured, relative to measured OS-MC
    published_against_os: Ratio | None
    theory: float | None  # on-policy Monte Carlo only: Var/(n v²)


@dataclass(frozen=True)
class FinalTable:
    name: str
    title: str
    domains: tuple[str, ...]
    titles: tuple[str, ...]
    methods: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]


def final(results: Results, target: Target, domain: str, method: str) -> Number:
    """MSE of a method's line at the last checkpoint."""
    line = next(x for panel in target.panels if panel.domain == domain for x in panel.lines if x.method == method)
    curve = results.curve(line)
    return Number(float(curve.mse[-1]), float(curve.mse_se[-1]))


def table(target: Target, results: Results) -> FinalTable:
    domains = tuple(panel.domain for panel in target.panels)
    methods = tuple(line.method for line in target.panels[0].lines)
    cells = {}
    for panel in target.panels:
        base, published_base = final(results, target, panel.domain, methods[0]), _published(target, methods[0], panel.domain)
        for line in panel.lines:
            measured, published = (
                final(results, target, panel.domain, line.method),
                _published(target, line.method, panel.domain),
            )
            known = resolve(line.work).truth
            theory = known.variance * known.mean_length / (results.steps(line)[-1] * known.value**2)
            cells[line.method, panel.domain] = Cell(
                line.method,
                panel.domain,
                measured,
                published,
                measured.over(base),
                published.over(published_base) if published and published_base else None,
                float(theory) if line.method == "os/mc" and np.isfinite(theory) else None,
            )
    return FinalTable(target.name, target.title, domains, tuple(p.title for p in target.panels), methods, cells)


def _published(target: Target, method: str, domain: str) -> Number | None:
    found = published_final(target.name, method, domain.partition(":")[0])
    return None if found is None else Number(*found)


def markdown(found: FinalTable, scale: Scale) -> str:
    """Measured, published and both relative to on-policy Monte Carlo."""
    head = "| | " + " | ".join(found.titles) + " |\n|---|" + "---|" * len(found.domains)
    size = f"{scale.trials} trials (Bandit: {scale.bandit_trials}), {scale.budget:g} mean episodes"
    lines = [f"# {found.title}", "", f"{size}, ± one standard error.", ""]
    ways: tuple[tuple[str, Callable[[Cell], str]], ...] = (
        ("Measured", lambda c: number(c.measured)),
        (
            "Published (their evaluation policies; the bandit's column is of another experiment)",
            lambda c: number(c.published),
        ),
        ("Measured, relative to OS-MC, 95 % interval", lambda c: ratio(c.against_os)),
        ("Published, relative to OS-MC", lambda c: ratio(c.published_against_os)),
    )
    for title, show in ways:
        lines += [f"## {title}", "", head]
        for method in found.methods:
            shown = " | ".join(show(found.cells[method, domain]) for domain in found.domains)
            lines.append(f"| {label(method)} | {shown} |")
        lines.append("")
    return "\n".join(lines)


def number(x: Number | None) -> str:
    return "–" if x is None or not math.isfinite(x.value) else f"{x.value:.2e} ± {x.se:.1e}"


def ratio(x: Ratio | None) -> str:
    if x is None or not math.isfinite(x.value):
        return "–"
    return "1" if x.value == 1.0 else f"{x.value:.2g} [{x.low:.2g}, {x.high:.2g}]"
