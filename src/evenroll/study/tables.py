"""Tables 3 and 4: final errors, published and measured, and their ratios with uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenroll.study.blocks import resolve
from evenroll.study.experiments import Scale
from evenroll.study.published import published_final
from evenroll.study.ratios import Number, Ratio
from evenroll.study.results import Results, on_policy_mse
from evenroll.study.targets import PaperTarget, label


@dataclass(frozen=True)
class TableCell:
    """The final MSE of a method in a domain, measured and published, and both relative to on-policy Monte Carlo."""

    method: str
    domain: str
    measured: Number
    published: Number | None
    against_os: Ratio  # the measured MSE relative to the measured one of OS-MC
    published_against_os: Ratio | None
    theory: float | None  # Var/(n v²), for on-policy Monte Carlo only


@dataclass(frozen=True)
class FinalTable:
    """A table of final errors: a cell for every method and domain."""

    name: str
    title: str
    domains: tuple[str, ...]
    titles: tuple[str, ...]
    methods: tuple[str, ...]
    cells: dict[tuple[str, str], TableCell]


def final(results: Results, target: PaperTarget, domain: str, method: str) -> Number:
    """The MSE of a method's line at the last checkpoint."""
    line = next(x for panel in target.panels if panel.domain == domain for x in panel.lines if x.method == method)
    curve = results.curve(line)
    return Number(float(curve.mse[-1]), float(curve.mse_se[-1]))


def table(target: PaperTarget, results: Results) -> FinalTable:
    """The table that a target asks for, from its results."""
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
            theory = on_policy_mse(resolve(line.work).truth, results.steps(line))[-1]
            cells[line.method, panel.domain] = TableCell(
                line.method,
                panel.domain,
                measured,
                published,
                measured.over(base),
                published.over(published_base) if published and published_base else None,
                float(theory) if line.method == "os/mc" and np.isfinite(theory) else None,
            )
    return FinalTable(target.name, target.title, domains, tuple(p.title for p in target.panels), methods, cells)


def _published(target: PaperTarget, method: str, domain: str) -> Number | None:
    entry = published_final(target.name, method, domain.partition(":")[0])
    return None if entry is None else Number(*entry)


def markdown(found: FinalTable, scale: Scale) -> str:
    """The table as Markdown: measured, published, and both relative to on-policy Monte Carlo."""
    head = "| | " + " | ".join(found.titles) + " |\n|---|" + "---|" * len(found.domains)
    size = f"{scale.trials} trials (Bandit: {scale.bandit_trials}), {scale.budget:g} mean episodes"
    lines = [f"# {found.title}", "", f"{size}, ± one standard error.", ""]
    ways: tuple[tuple[str, Callable[[TableCell], str]], ...] = (
        ("Measured", lambda c: str(c.measured)),
        (
            "Published (their evaluation policies; the bandit's column is of another experiment)",
            lambda c: _or_dash(c.published),
        ),
        ("Measured, relative to OS-MC, 95 % interval", lambda c: str(c.against_os)),
        ("Published, relative to OS-MC", lambda c: _or_dash(c.published_against_os)),
    )
    for title, show in ways:
        lines += [f"## {title}", "", head]
        for method in found.methods:
            shown = " | ".join(show(found.cells[method, domain]) for domain in found.domains)
            lines.append(f"| {label(method)} | {shown} |")
        lines.append("")
    return "\n".join(lines)


def _or_dash(entry: Number | Ratio | None) -> str:
    return "–" if entry is None else str(entry)
