"""report.html: one file that needs no network. It shows what was published, what came out here, and what holds."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from evenroll import __version__
from evenroll.domains.catalogue import get_domain
from evenroll.files.safe_files import write_atomically
from evenroll.policies import TabularSoftmax
from evenroll.study.charts import Chart, charts
from evenroll.study.claims import claims
from evenroll.study.domain_pictures import domain_pngs
from evenroll.study.evidence import Evidence, JudgedClaim
from evenroll.study.experiments import DOMAINS, METHODS, Scale
from evenroll.study.palette import GREY, look_of
from evenroll.study.ratios import FAILS, HOLDS, UNDECIDED
from evenroll.study.report_text import DECIDED, about, differences, size
from evenroll.study.results import Results
from evenroll.study.tables import FinalTable, table
from evenroll.study.targets import PaperTarget, label
from evenroll.text.page import common_style, element, joined
from evenroll.text.page import table as grid

VERDICTS = {HOLDS: ("holds", "✓"), FAILS: ("fails", "✗"), UNDECIDED: ("unsure", "?")}  # kind and sign of the badge


def write_report(
    done: Sequence[PaperTarget],
    results: Results,
    path: Path,
    scale: Scale,
    decided: Sequence[JudgedClaim] | None = None,
) -> Path:
    """Write the page of the targets that are done. It holds no times: the same results give the same bytes.

    decided  the claims as they were judged with more trials (`deciding`); otherwise they are judged on these results
    """
    there = [target.name for target in done]
    drawn = {t.name: charts(t, results) for t in done if t.name == "theory" or (t.panels and t.name.startswith("fig"))}
    data = {"sections": [{"name": name, "charts": [_plain(c) for c in parts]} for name, parts in drawn.items()]}
    if decided is None:
        judged = _claims(claims(Evidence({t.name: t for t in done}, results)), "")
    else:
        judged = _claims(decided, DECIDED)
    links = ["idea", *(["claims"] if judged else []), *there, "differences"]
    words = {"idea": "the idea", "differences": "where we differ"}
    page = Template(_asset("report.html")).substitute(
        css=common_style() + _asset("report.css") + _colours(drawn.values()),
        script=_asset("report.js"),
        data=json.dumps(data, separators=(",", ":"), allow_nan=False).replace("</", "<\\/"),
        size=size(scale, there),
        links=" ".join(f'<a href="#{name}">{words.get(name, name)}</a>' for name in links),
        claims=judged,
        sections="\n".join(_section(target, results, there) for target in done),
        differences="\n".join(
            f"<li>{x}</li>" for x in differences(there, f"{_bandit_noise():.2f}", _bandits(done, results))
        ),
        names=" ".join(there),
        version=__version__,
    )
    write_atomically(path, page.encode())
    return path


def _asset(name: str) -> str:
    return (resources.files("evenroll.study") / "data" / name).read_text()


def _colours(drawn: Iterable[Sequence[Chart]]) -> str:
    """The style sheet's variables for every colour of the page, on light and on dark ground."""
    used = {colour.name: colour for colour in (GREY, *(look_of(method).colour for method in METHODS))}
    used |= {s.look.colour.name: s.look.colour for parts in drawn for chart in parts for s in chart.series}
    light = " ".join(f"--{name}: {colour.light};" for name, colour in sorted(used.items()))
    dark = " ".join(f"--{name}: {colour.dark};" for name, colour in sorted(used.items()))
    return (
        f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {dark} }} }}\n"
        f":root[data-theme=dark] {{ {dark} }}\n"
    )


def _plain(chart: Chart) -> dict[str, Any]:
    """The chart as JSON, with numbers to four digits, which is more than a screen shows."""

    def numbers(values: np.ndarray | None) -> list[float] | None:
        return None if values is None else [float(f"{v:.4g}") for v in values]

    series = [
        {
            "key": s.key, "label": s.label, "colour": f"var(--{s.look.colour.name})", "marker": s.look.marker,
            "hollow": s.look.hollow, "dash": s.dash, "points": s.points, "x": numbers(s.x), "y": numbers(s.y),
            "low": numbers(s.low), "high": numbers(s.high),
        }
        for s in chart.series
    ]  # fmt: skip
    return {
        "title": chart.title, "x_label": chart.x_label, "y_label": chart.y_label, "log_x": chart.log_x,
        "log_y": chart.log_y, "series": series,
    }  # fmt: skip


def _claims(judged: Sequence[JudgedClaim], rule: str) -> str:
    """The section of claims. A page whose targets have none has no such section."""
    if not judged:
        return ""

    def badge(verdict: str) -> str:
        kind, sign = VERDICTS[verdict]
        return f'<span class="verdict" data-is="{kind}">{sign} {verdict}</span>'

    tally = "".join(f"<div><b>{sum(c.verdict == v for c in judged)}</b>{badge(v)}</div>" for v in VERDICTS)
    items = "\n".join(
        f"<li><details><summary>{badge(c.verdict)} {html.escape(c.text)} "
        f'<a href="#{c.target}" class="soft">{c.target}</a></summary>'
        f'<p class="soft">Criterion: {html.escape(c.criterion)}</p>'
        f"<ul>{''.join(f'<li>{html.escape(n)}</li>' for n in c.numbers)}</ul>{_added(c)}</details></li>"
        for c in judged
    )
    return Template(_asset("report_claims.html")).substitute(tally=tally, items=items, rule=rule)


def _added(claim: JudgedClaim) -> str:
    """What further trials said of a claim, and how many the verdict took or why there is none."""
    note = f"<p>{html.escape(claim.note)}</p>" if claim.note else ""
    looks = "".join(f"<li>{html.escape(str(look))}</li>" for look in claim.added)
    return note + (f"<ul>{looks}</ul>" if looks else "")


def _section(target: PaperTarget, results: Results, there: Sequence[str]) -> str:
    name = target.name
    head = f'<h2 id="{name}">{name}: {html.escape(target.title)}</h2><p>{about(name, there)}</p>'
    if name == "fig5":
        images = "".join(
            f'<img alt="{title}" src="data:image/png;base64,{base64.b64encode(data).decode()}">'
            for title, data in domain_pngs().items()
        )
        return f'{head}<div class="pictures">{images}</div>{_settings()}'
    if name.startswith("table"):
        return head + _table(table(target, results))
    return f'{head}<div class="bar" id="legend-{name}"></div><div class="charts" id="charts-{name}"></div>'


def _settings() -> str:
    """Tables 1 and 2 of the paper, and what the policies are worth."""
    rows = []
    for name, title in DOMAINS.items():
        domain = get_domain(name)
        known = domain.known_truth(domain.policy())
        assert known is not None
        bpg, ros, started = (domain.paper[method] for method in ("bpg", "ros", "init+ros"))
        value = f"{known.value:.6g}" + (f" ± {known.value_se:.1g}" if known.value_se else ", exact")
        rows.append(
            (
                title, f"{domain.gamma:g}", str(domain.horizon), f"{known.mean_length:.4g}", value, f"{known.variance:.4g}",
                f"{bpg['batch']:g}", f"{bpg['step_size']:g}", f"{ros['alpha']:g}", f"{started['alpha']:g}",
            )
        )  # fmt: skip
    heads = (
        "domain", "γ", "horizon", "mean length", "v(π)", "Var[return]", "BPG k", "BPG α", "ROS α", "ROS α, initial data",
    )  # fmt: skip
    return "<h3>Tables 1 and 2: settings</h3>" + grid(heads, rows)


def _table(found: FinalTable) -> str:
    rows = []
    for method in found.methods:
        row: list[str] = [label(method)]
        for domain in found.domains:
            cell = found.cells[method, domain]
            notes = [f"/ OS-MC: {cell.against_os}"]
            if cell.published_against_os is not None:
                notes.append(f"published / OS-MC: {cell.published_against_os}")
            if cell.theory is not None:
                notes.append(f"theory: {cell.theory:.2e}")
            if cell.published is not None:
                notes.append(f"published {cell.published}")
                notes.append(f"measured / published: {cell.measured.over(cell.published)}")
            row.append(joined([cell.measured, *(element("small", note) for note in notes)]))
        rows.append(row)
    return (
        grid(("final MSE", *found.titles), rows)
        + '<p class="soft">± one standard error; brackets: 95 %. The evaluation policies are not the authors’: compare the '
        "ratios to OS-MC rather than the errors. A smaller run ends earlier, with larger errors.</p>"
    )


def _bandit_noise() -> float:
    """The share of Var[reward] on the fixed bandit that is the arms' own: Σ π σ² / Var."""
    domain = get_domain("bandit")
    policy, params = domain.policy(), domain.environment(None).params
    known = domain.known_truth(policy)
    assert isinstance(policy, TabularSoftmax)
    assert known is not None
    return float(policy.table[0] @ params[1 + int(params[0]) :] ** 2) / known.variance


def _bandits(done: Sequence[PaperTarget], results: Results) -> str:
    """ROS against OS on the fixed bandit and on one redrawn in every trial, if table 3 was run."""
    for target in done:
        if target.name == "table3":
            cells = table(target, results).cells
            names = {"bandit": "on one fixed bandit", "bandit:redraw=1": "with another bandit in every trial"}
            found = [f"{cells['ros/mc', key].against_os} {name}" for key, name in names.items() if ("ros/mc", key) in cells]
            return f"Measured here: {', '.join(found)}."
    return ""
