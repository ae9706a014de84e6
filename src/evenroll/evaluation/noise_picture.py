"""The noise budget as a strip: taken out, left, and where it comes from. For terminals, web pages and matplotlib."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from evenroll.evaluation.noise import NoiseBudget

# Two hues, dark where it is taken out and light where it is left, and grey for the environment: told apart without colour
# too, by their lightness.
COLOURS = {
    "actions": "#2f6db5", "starts": "#b5622f", "actions left": "#a9c7e8", "starts left": "#ecc4a6", "environment": "#9a9a9a",
    "left": "#c4c4c4",
}  # fmt: skip
MARKS = {"actions": "█", "starts": "▓", "actions left": "▒", "starts left": "░", "environment": "·", "left": "·"}
WORDS = {
    "actions": "choices, taken out", "starts": "starts, taken out", "actions left": "choices, left",
    "starts left": "starts, left", "environment": "environment", "left": "left",
}  # fmt: skip


ROOM_FOR_TWO = 400  # pixels from which on the legend has two columns


@dataclass(frozen=True)
class Segment:
    """A part of the strip: what it is, and its share of the variance."""

    name: str
    share: float

    @property
    def label(self) -> str:
        return f"{WORDS[self.name]} {self.share:.0%}"


def segments(budget: NoiseBudget) -> list[Segment]:
    """The parts of the strip, from what was taken out to the environment. They add up to 1; the smallest are left out."""
    parts = [("actions", budget.actions), ("starts", budget.starts)]
    if budget.environment is None:
        parts.append(("left", budget.left))
    else:
        parts += [("actions left", budget.actions_left), ("starts left", budget.starts_left)]
        parts.append(("environment", budget.environment))
    there = [(name, float(share)) for name, share in parts if share is not None and share >= 0.005]
    total = sum(share for _, share in there)
    return [Segment(name, share / total) for name, share in there] if total > 0.0 else []


def in_characters(budget: NoiseBudget, width: int = 48) -> list[tuple[str, str, str]]:
    """(characters, colour, label) of each segment; together `width` characters. A share is never shown as nothing."""
    found = segments(budget)
    counts = [max(1, round(width * part.share)) for part in found]
    while sum(counts) > width:
        counts[counts.index(max(counts))] -= 1
    while counts and sum(counts) < width:
        counts[counts.index(max(counts))] += 1
    return [(MARKS[p.name] * n, COLOURS[p.name], p.label) for p, n in zip(found, counts, strict=True)]


def svg(budget: NoiseBudget, width: int = 640) -> str:
    """A strip with its legend, as a piece of SVG that stands alone or inside a page. Text takes the page's colour."""
    height, row, x, drawn = 26, 22, 0.0, []
    found, columns = segments(budget), 2 if width >= ROOM_FOR_TWO else 1
    for part in found:
        span = width * part.share
        drawn.append(
            f'<rect x="{x:.1f}" y="0" width="{span:.1f}" height="{height}" fill="{COLOURS[part.name]}">'
            f"<title>{escape(part.label)}</title></rect>"
        )
        x += span
    for i, part in enumerate(found):
        left, top = (i % columns) * width / columns, height + 12 + (i // columns) * row
        drawn.append(f'<rect x="{left:.0f}" y="{top}" width="12" height="12" fill="{COLOURS[part.name]}"/>')
        drawn.append(
            f'<text x="{left + 18:.0f}" y="{top + 11}" font-size="13" fill="currentColor" '
            f'font-family="system-ui, sans-serif">{escape(part.label)}</text>'
        )
    total = height + 12 + -(-len(found) // columns) * row
    said = escape("variance of one return: " + ", ".join(part.label for part in found))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}" width="{width}" height="{total}" '
        f'role="img" aria-label="{said}"><title>{said}</title>{"".join(drawn)}</svg>'
    )


def draw(axis: Any, budget: NoiseBudget) -> None:
    """The strip on matplotlib axes, with its legend below."""
    x = 0.0
    for part in segments(budget):
        axis.barh(0.0, part.share, left=x, height=1.0, color=COLOURS[part.name], edgecolor="white", lw=0.8, label=part.label)
        x += part.share
    axis.set_xlim(0.0, 1.0)
    axis.axis("off")
    axis.set_title("where the variance of one return comes from", fontsize=9, loc="left")
    axis.legend(frameon=False, fontsize=8, ncols=3, loc="upper left", bbox_to_anchor=(0.0, 0.0), borderaxespad=0.2)
