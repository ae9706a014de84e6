"""A result as one web page that needs nothing else: no script, no network, light and dark, on a phone and on paper.

A page is a headline, warnings and notes, and sections that `report_parts` makes. Results of another kind can be shown in
the same way: `page` takes whatever sections there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np

from evenroll.evaluation import report_parts as parts
from evenroll.evaluation.page_axes import limits
from evenroll.evaluation.page_figures import FEW, MOST_DOTS, intervals_picture, pairs_picture, spread_picture
from evenroll.text.page import Html, document, element, table


def page(
    kind: str, title: str, number: str, words: Sequence[str], warnings: Sequence[str], notes: Sequence[str],
    facts: Sequence[tuple[str, object]], sections: Sequence[Html],
) -> str:  # fmt: skip
    """The whole page.

    kind      what was done, in two or three words
    title     the heading
    number    what was found, as large as it deserves
    words     the same in sentences, each a paragraph
    facts     small numbers beside it, by name
    sections  what comes below (`report_parts.section`)
    """
    header = element(
        "header",
        element("p", kind, class_="kind"),
        element("h1", title),
        element("p", number, class_="number"),
        *(element("p", text, class_="lead") for text in words),
        parts.facts(facts),
        parts.alerts(warnings, notes),
    )
    versions = parts.versions()
    footer = element("footer", f"Made by evenroll {versions['evenroll']}. This page is one file and needs no network.")
    return document(f"{title}: {number}", _style(), header, element("main", *sections), footer)


def evaluation_page(result: Any, command: str | None = None) -> str:
    """The page of an `Evaluation`. `command` is what repeats it, if it was not a call in Python."""
    facts: list[tuple[str, object]] = [("episodes", f"{result.episodes:,}"), ("environment steps", f"{result.steps:,}")]
    if result.gains:
        times = result.on_policy_episodes / result.episodes
        facts.append(("on-policy episodes for the same", f"~{result.on_policy_episodes:,.0f} ({times:.2g}×)"))
    if result.mean is not None and result.estimator != "mc":
        facts.append(("plain mean of the returns", str(result.mean)))
    sections = [
        parts.section("What was found", charts(parts.settled(result), parts.returns(result)), name="found"),
        parts.section("Where the noise comes from", parts.noise(result), name="noise"),
        _columns(
            parts.section("In other numbers", parts.quantities(result), name="quantities"),
            parts.section("How episodes ended", parts.endings(result), name="endings"),
        ),
        _columns(
            parts.section("How far from on-policy", parts.balance(result), name="balance"),
            parts.section("Where it is off", parts.places(result), name="places"),
        ),
        _columns(
            parts.section("Settings", parts.settings(result), name="settings"),
            parts.section("Repeat it", parts.repeated(result, command), name="repeat"),
        ),
    ]
    title = f"What the policy is worth in {result.domain}"
    words = [result.worth()]
    warnings, notes = parts.warnings_of(result), [note for note in parts.notes_of(result) if note != result.note]
    return page("Evaluation of a policy", title, result.number(), words, warnings, notes, facts, sections)


def difference_page(result: Any, command: str | None = None) -> str:
    """The page of a `Difference`: the verdict, every pair, and both evaluations side by side."""
    first, second = both = (result.first, result.second)
    names = ("first policy", "second policy")
    facts: list[tuple[str, object]] = [("episodes of each policy", f"{first.episodes:,}")]
    facts += [("environment steps", f"{first.steps + second.steps:,}")]
    if result.alone is not None:
        facts.append(("half-width with starts of their own", f"± {result.alone:.2g}"))
    shared = _shared_range(both)
    rows = [(name, one.value, one.low, one.high) for name, one in zip(names, both, strict=True)]
    values = parts.figure(intervals_picture(rows, "value"), "Both values, each with its own interval")
    sides, details = [], []
    for name, one in zip(names, both, strict=True):
        head, figures = element("h3", f"The {name}"), (parts.settled(one), parts.returns(one, shared), parts.noise(one))
        tables = (parts.quantities(one), parts.endings(one), parts.balance(one), parts.places(one))
        sides.append(element("div", head, *figures, class_="side"))
        details.append(element("div", head, *tables))
    policies = {"first policy": first.policy, "second policy": second.policy}
    sections = [
        parts.section("Pair by pair", *_pairs(result), name="pairs"),
        parts.section("Both policies side by side", charts(values, _beside(first, second)), charts(*sides), name="both"),
        parts.section("More about each", charts(*details), name="more"),
        _columns(
            parts.section("Settings", parts.settings(first, policies), name="settings"),
            parts.section("Repeat it", parts.repeated(result, command), name="repeat"),
        ),
    ]
    warnings = list(result.warnings)
    if result.low is None:
        warnings.append(f"There is no interval: {result.why or 'the reason is not known'}")
    if result.interrupted:
        warnings.append("Collecting was interrupted, so that fewer starts are compared than was asked for")
    notes: list[str] = []
    for name, one in zip(names, both, strict=True):
        notes += [f"{name}: {text}" for text in parts.notes_of(one)]
    title = f"{result.in_short()} in {first.domain}"
    return page("Comparison of two policies", title, result.number(), [result.worth()], warnings, notes, facts, sections)


def _pairs(result: Any) -> list[Html]:
    """Every pair as a picture, how the differences spread, and how often each policy did better."""
    caption = "The difference of every pair, first minus second"
    gaps = result.gaps()
    if gaps is None:
        return [parts.figure(None, caption, words=f"{parts.NO_DATA}: its pairs cannot be drawn.")]
    better, worse = int(np.count_nonzero(gaps > 0.0)), int(np.count_nonzero(gaps < 0.0))
    said = f"From the same start the first policy did better in {better:,} of {len(gaps):,} pairs, the second in {worse:,}"
    said += f", and {len(gaps) - better - worse:,} were equal."
    if len(gaps) == 0 or float(np.ptp(gaps)) == 0.0:
        words = (
            "There are no pairs." if len(gaps) == 0 else f"All {len(gaps):,} differences were equal: {float(gaps[0]):.10g}."
        )
        return [parts.paragraph(said), parts.figure(None, caption, words=words)]
    interval = parts.interval_of(result)
    band = [("band", f"{parts.level(result)} interval")] if interval is not None else []
    dot = "a pair from one start" if len(gaps) <= MOST_DOTS else f"{MOST_DOTS} of the pairs, at even distances"
    keys = [("dot", dot), ("second", "running mean of the pairs"), ("estimate", "estimate, with the luck taken out"), *band]
    shape = ("dot", "a pair") if len(gaps) <= FEW else ("bar", "pairs")
    spread = spread_picture(gaps, result.value, interval, "difference", "pairs")
    return [
        parts.paragraph(said),
        charts(
            parts.figure(pairs_picture(gaps, result.value, interval), caption, keys),
            parts.figure(spread, "How the differences spread", [shape, ("estimate", "estimate"), *band]),
        ),
    ]


def _beside(first: Any, second: Any) -> Html:
    """The main numbers of two evaluations in one table."""
    rows: list[tuple[object, ...]] = [("value", first.number(), second.number())]
    rows += [("plain mean", *(str(one.mean) if one.mean is not None else "not known" for one in (first, second)))]
    for name in dict.fromkeys((*first.quantities, *second.quantities)):
        rows.append((name, *(str(one.quantities.get(name, "not known")) for one in (first, second))))
    rows += [
        (name, *(f"{getattr(one, name):,}" for one in (first, second))) for name in ("steps", "terminated", "truncated")
    ]
    return table(("", "first policy", "second policy"), rows)


def _shared_range(results: Sequence[Any]) -> tuple[float, float] | None:
    """One range for the returns of several evaluations; None where the episodes of one are not there."""
    if any(one.rollouts is None for one in results):
        return None
    ends = [v for one in results for v in (one.value, one.low, one.high) if v is not None]
    return limits(*(one.rollouts.returns for one in results), *ends)


def charts(*figures: Html) -> Html:
    return element("div", *figures, class_="charts")


def _columns(*sections: Html) -> Html:
    """Sections side by side where the page is wide enough."""
    return element("div", *sections, class_="columns")


def _style() -> str:
    return (resources.files("evenroll.evaluation") / "data" / "report.css").read_text()
