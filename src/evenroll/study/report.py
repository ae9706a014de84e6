"""report.html: one file, no network. What was published, what came out here, and whether each claim holds."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
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
from evenroll.study.claims import FAILS, HOLDS, UNDECIDED, Claim, Evidence, claims
from evenroll.study.experiments import DOMAINS, FULL, Scale, Target, label
from evenroll.study.results import Results
from evenroll.study.tables import FinalTable, number, ratio, table

ABOUT = {  # what to look for
    "fig1": "How far the collected data is from on-policy. ROS pulls it in faster than chance does.",
    "fig2": "The error of the final estimate. Independent sampling must follow the dotted line; ROS and auto leave it.",
    "fig3": "100 slightly off-policy trajectories are there to begin with. ROS makes up for what they lack.",
    "fig4": "Too small a step does little; too large a step diverges on CartPole. The right panels: ROS removes the noise "
    "of the policy's choices, not that of the rewards.",
    "fig5": "Where the policies act. These are our own evaluation policies, not the authors'.",
    "fig6": "KL divergence of the maximum-likelihood policy of the data from the policy that is evaluated.",
    "fig7": "The same, starting from off-policy data.",
    "fig8": "A second measure of the same thing: the mean absolute entry of the log-likelihood's gradient.",
    "fig9": "The same, starting from off-policy data.",
    "fig10": "A mean squared error can be the work of a few bad trials; a median cannot.",
    "fig11": "The same with initial data.",
    "fig12": "The right panels of figure 4, on GridWorld. At ε = 0 both errors are zero and there is no ratio.",
    "fig13": "Instead of collecting evenly, one can correct afterwards, weighting by the fitted policy (WRIS).",
    "fig14": "Fitted Q-evaluation by a network (2 × 64, batches of 256; the authors': 2 × 256, batches of 5,120), and in "
    "closed form: exact on tables, linear in the policy's features elsewhere.",
    "theory": "What the paper proves, on data. The bound of Theorem 3 as printed fails at the yellow point, where the "
    "corrected one (green) holds.",
}  # fmt: skip


def write_report(done: Sequence[Target], results: Results, path: Path, scale: Scale) -> Path:
    """The page of the targets that are done. It holds no times: the same results give the same bytes."""
    drawn = {t.name: charts(t, results) for t in done if t.name == "theory" or (t.panels and t.name.startswith("fig"))}
    data = {"sections": [{"name": name, "charts": [_plain(c) for c in parts]} for name, parts in drawn.items()]}
    page = Template(_asset("report.html")).substitute(
        css=_asset("report.css"),
        script=_asset("report.js"),
        data=json.dumps(data, separators=(",", ":"), allow_nan=False).replace("</", "<\\/"),
        size=_size(scale),
        links=" ".join(f'<a href="#{t.name}">{t.name}</a>' for t in done),
        claims=_claims(claims(Evidence({t.name: t for t in done}, results))),
        sections="\n".join(_section(target, results, path.parent) for target in done),
        noise=f"{_bandit_noise():.2f}",
        bandits=_bandits(done, results),
        names=" ".join(t.name for t in done),
        version=__version__,
    )
    write_atomically(path, page.encode())
    return path


def _asset(name: str) -> str:
    return (resources.files("evenroll.study") / "data" / name).read_text()


def _plain(chart: Chart) -> dict[str, Any]:
    """As JSON; numbers to four digits, which is more than a screen shows."""

    def numbers(values: np.ndarray | None) -> list[float] | None:
        return None if values is None else [float(f"{v:.4g}") for v in values]

    series = [
        {
            "key": s.key, "label": s.label, "colour": s.colour, "dash": s.dash, "points": s.points,
            "x": numbers(s.x), "y": numbers(s.y), "low": numbers(s.low), "high": numbers(s.high),
        }
        for s in chart.series
    ]  # fmt: skip
    return {
        "title": chart.title, "x_label": chart.x_label, "y_label": chart.y_label, "log_x": chart.log_x,
        "log_y": chart.log_y, "series": series,
    }  # fmt: skip


def _size(scale: Scale) -> str:
    size = (
        f"{scale.trials} trials of up to {scale.budget:,.0f} mean episodes (budgets are given in mean episode lengths, so "
        f"that domains compare); {scale.sweep_trials} where figures 4 and 12 vary a setting, {scale.bandit_trials:,} for "
        "errors on the fixed bandit."
    )
    if scale.trials >= FULL.trials and scale.budget >= FULL.budget:
        return size
    paper = f"{FULL.trials} trials of {FULL.budget:,.0f}"
    return f'<span class="badge">Smaller than the paper</span> {size} The paper has {paper}. Expect “cannot tell”.'


def _claims(judged: Sequence[Claim]) -> str:
    tally = "".join(f"<div><b>{sum(c.verdict == v for c in judged)}</b>{v}</div>" for v in (HOLDS, FAILS, UNDECIDED))
    kinds = {HOLDS: "holds", FAILS: "fails", UNDECIDED: "unsure"}
    items = "\n".join(
        f'<li><details class="{kinds[c.verdict]}"><summary><span class="verdict">{c.verdict}</span> {html.escape(c.text)} '
        f'<a href="#{c.target}" class="soft">{c.target}</a></summary>'
        f'<p class="soft">Criterion: {html.escape(c.criterion)}</p>'
        f"<ul>{''.join(f'<li>{html.escape(n)}</li>' for n in c.numbers)}</ul></details></li>"
        for c in judged
    )
    return f'<div class="tally">{tally}</div><ul class="claims">{items}</ul>'


def _section(target: Target, results: Results, directory: Path) -> str:
    name = target.name
    head = f'<h2 id="{name}">{name}: {html.escape(target.title)}</h2><p>{html.escape(ABOUT.get(name, ""))}</p>'
    if name == "fig5":
        image = base64.b64encode((directory / "fig5.png").read_bytes()).decode()
        return f'{head}<img class="domains" alt="The domains" src="data:image/png;base64,{image}">{_settings()}'
    if name.startswith("table"):
        return head + _table(table(target, results))
    return f'{head}<div class="bar" id="legend-{name}"></div><div class="charts" id="charts-{name}"></div>'


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{h}</th>" for h in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'


def _settings() -> str:
    """Tables 1 and 2, and what the policies are worth."""
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
        "domain",
        "γ",
        "horizon",
        "mean length",
        "v(π)",
        "Var[return]",
        "BPG k",
        "BPG α",
        "ROS α",
        "ROS α, initial data",
    )
    return "<h3>Tables 1 and 2: settings</h3>" + _grid(heads, rows)


def _table(found: FinalTable) -> str:
    rows = []
    for method in found.methods:
        row = [f"<b>{html.escape(label(method))}</b>"]
        for domain in found.domains:
            cell = found.cells[method, domain]
            notes = [f"/ OS-MC: {ratio(cell.against_os)}"]
            if cell.published_against_os is not None:
                notes.append(f"published / OS-MC: {ratio(cell.published_against_os)}")
            if cell.theory is not None:
                notes.append(f"theory: {cell.theory:.2e}")
            if cell.published is not None:
                notes.append(f"published {number(cell.published)}")
                notes.append(f"measured / published: {ratio(cell.measured.over(cell.published))}")
            row.append(number(cell.measured) + "".join(f"<small>{note}</small>" for note in notes))
        rows.append(row)
    return (
        _grid(("final MSE", *(html.escape(t) for t in found.titles)), rows)
        + '<p class="soft">± one standard error; brackets: 95 %. The evaluation policies are not the authors’: compare the '
        "ratios to OS-MC rather than the errors. A smaller run ends earlier, with larger errors.</p>"
    )


def _bandit_noise() -> float:
    """Share of Var[reward] on the fixed bandit that is the arms' own: Σ π σ² / Var."""
    domain = get_domain("bandit")
    policy, params = domain.policy(), domain.environment(None).params
    known = domain.known_truth(policy)
    assert isinstance(policy, TabularSoftmax)
    assert known is not None
    return float(policy.table[0] @ params[1 + int(params[0]) :] ** 2) / known.variance


def _bandits(done: Sequence[Target], results: Results) -> str:
    """ROS against OS on the fixed bandit and on one redrawn in every trial, if table 3 was run."""
    for target in done:
        if target.name == "table3":
            cells = table(target, results).cells
            names = {"bandit": "on one fixed bandit", "bandit:redraw=1": "with another bandit in every trial"}
            found = [
                f"{ratio(cells['ros/mc', key].against_os)} {name}" for key, name in names.items() if ("ros/mc", key) in cells
            ]
            return f"Measured here: {', '.join(found)}."
    return ""
