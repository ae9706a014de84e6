"""A race as one web page, in the manner of the other results (`report_page.py`)."""

from __future__ import annotations

from typing import Any

from evenroll.evaluation import report_parts as parts
from evenroll.evaluation.page_axes import Frame, limits, picture
from evenroll.evaluation.page_figures import intervals_picture
from evenroll.evaluation.report_page import charts, page
from evenroll.text.page import Html, table


def race_page(result: Any, command: str | None = None) -> str:
    """The page of a `Race`: the winner, how the race went, everybody's place, and the winner on fresh episodes."""
    facts: list[tuple[str, object]] = [
        ("policies", f"{len(result.runners)}"),
        ("episodes in all", f"{result.episodes:,}"),
        ("environment steps", f"{result.steps:,}"),
        ("if all had run as long as the winner", f"{result.rounds * len(result.runners):,} episodes"),
    ]
    race = parts.figure(race_lines(result), "The estimate of every policy after each look, until it dropped out")
    gaps = [(r.name, (r.low + r.high) / 2, r.low, r.high) for r in result.runners if r.low is not None]
    against = parts.figure(
        intervals_picture(gaps, "how much better than the leader") if gaps else None,
        "Against the leader, at the last look of each: intervals that hold together",
        words="No policy has an interval against the leader.",
    )
    sections = [
        parts.section("The race", charts(race, against), name="race"),
        parts.section("Everybody's place", _places(result), name="places"),
    ]
    warnings: list[str] = []
    if not result.decided:
        warnings.append("It is not decided: a policy that is left may be better than the leader")
    if result.fresh is not None:
        fresh = result.fresh
        warnings += [text for text in parts.warnings_of(fresh) if text not in warnings]
        sections.append(parts.section(
            "The winner on fresh episodes", parts.paragraph(fresh.worth()),
            charts(parts.settled(fresh), parts.returns(fresh)), name="fresh",
        ))  # fmt: skip
        sections.append(parts.section("Settings", parts.settings(fresh), name="settings"))
    sections.append(parts.section("Repeat it", parts.repeated(result, command), name="repeat"))
    title = f"{result.winner} {'is the best' if result.decided else 'leads'}"
    number = f"{result.value:.5g}" if result.fresh is None else result.fresh.number()
    return page("Race of policies", title, number, [result.in_words()], warnings, [], facts, sections)


def race_lines(result: Any) -> Html | None:
    """A line for every policy, as long as it ran; the winner's is the thick one."""
    history, names = result.history, [runner.name for runner in result.runners]
    values = [value for _, left in history for value in left.values()]
    up = limits(*values) if values else None
    if up is None:
        return None
    across = (0.0, float(history[-1][0] + 1))

    def draw(width: int) -> tuple[int, Html]:
        frame = Frame.of(width, across, up, ("rounds: episodes of each policy that is left", "estimate"))
        marks = []
        for name in reversed(names):
            points = [(n, left[name]) for n, left in history if name in left]
            if points:
                x, y = zip(*points, strict=True)
                first = name == result.winner
                marks.append(frame.line(x, y, "estimate" if first else "second-line"))
                marks.append(frame.dots(x[-1:], y[-1:], "dot", 3.0))
        return frame.drawing(*marks)

    said = "; ".join(
        f"{r.name} {r.value:.5g}" + (f", out after {r.out} rounds" if r.out is not None else "") for r in result.runners
    )
    return picture(draw, "The race", f"{said}.")


def _places(result: Any) -> Html:
    rows = []
    for runner in result.runners:
        gap = "–" if runner.low is None or runner.high is None else f"{runner.low:+.3g} … {runner.high:+.3g}"
        rows.append(
            (runner.name, f"{runner.value:.5g}", gap, f"{runner.episodes:,}", f"{runner.steps:,}", result.state(runner))
        )
    return table(("policy", "estimate", "against the leader", "episodes", "steps", "state"), rows)
