"""What a claim is judged by: the targets that were run, their results, and comparisons of methods within a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenroll.study.curve import finite_or_none
from evenroll.study.parts import Measured, MedianPart, Part, RatioPart, Reading
from evenroll.study.ratios import Number, together
from evenroll.study.results import Results
from evenroll.study.targets import Line, Panel, PaperTarget, label


@dataclass(frozen=True)
class JudgedClaim:
    """A claim about a target, the criterion that was fixed beforehand, and the verdict with its numbers.

    numbers  what the trials of the figure say, as lines of the page
    parts    the comparisons that the verdict follows from, where they are of a kind that more trials can decide
    fixed    verdicts beside those of the parts, which are taken from the trials of the figure only
    added    what further trials say (`deciding`), part by part; empty unless some were asked for and needed
    note     how many trials the verdict took, or why there is none; empty unless further trials were asked for
    """

    target: str
    text: str
    criterion: str
    verdict: str
    numbers: tuple[str, ...]
    parts: tuple[Part, ...] = ()
    fixed: tuple[str, ...] = ()
    added: tuple[AddedLook, ...] = ()
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("target", "text", "criterion", "verdict", "numbers")}
        if not self.note:
            return plain
        return {**plain, "note": self.note, "added": [look.to_json() for look in self.added]}


@dataclass(frozen=True)
class AddedLook:
    """The last look at a part of a claim that got more trials than the figure has.

    confidence  how often the interval of this one look holds the truth
    """

    reading: Reading
    confidence: float

    def __str__(self) -> str:
        trials = " and ".join(f"{n:,}" for n in self.reading.trials)
        return f"{self.reading.text} ({100 * self.confidence:.2f} %), {trials} trials: {self.reading.verdict}"

    def to_json(self) -> dict[str, Any]:
        r = self.reading
        numbers = {name: finite_or_none(getattr(r, name)) for name in ("value", "low", "high")}
        shared = {"name": r.name, "verdict": r.verdict, "trials": list(r.trials), "confidence": round(self.confidence, 6)}
        return {**shared, **numbers}


@dataclass(frozen=True)
class Evidence:
    """The targets that were run and their results."""

    targets: Mapping[str, PaperTarget]
    results: Results

    def panels(self, target: str) -> tuple[Panel, ...]:
        """The target's panels of the paper's own domains. A domain with parameters is not one of them."""
        return tuple(p for p in self.targets[target].panels if ":" not in p.domain)

    def line(self, panel: Panel, method: str) -> Line | None:
        """The method's line in the panel, if it is there."""
        return next((x for x in panel.lines if x.method == method), None)

    def place(self, panel: Panel, budget: float) -> int | None:
        """Where the panel's curves have this many mean episodes, if they have a checkpoint there."""
        budgets = panel.lines[0].work.budgets
        return budgets.index(budget) if budget in budgets else None

    def measured(self, panel: Panel, method: str, place: int = -1) -> Measured | None:
        """What the panel shows of the method at a checkpoint, if the method is in it."""
        line = self.line(panel, method)
        return None if line is None else Measured(line, panel.quantity, place)

    def at(self, panel: Panel, method: str, place: int = -1) -> Number | None:
        """The panel's quantity at a checkpoint, if the method is in it. A median has no standard error."""
        measured = self.measured(panel, method, place)
        return None if measured is None else measured.number(self.results)

    def judged(
        self, target: str, text: str, criterion: str, parts: Sequence[Part], *, fixed: tuple[str, ...] = (),
        numbers: tuple[str, ...] | None = None,
    ) -> JudgedClaim:  # fmt: skip
        """A claim that holds if all its parts do, judged on these results. Without `numbers`, the parts' own are shown."""
        readings = [part.read(self.results, part.usual) for part in parts]
        verdict = together([*(reading.verdict for reading in readings), *fixed])
        lines = tuple(reading.text for reading in readings) if numbers is None else numbers
        return JudgedClaim(target, text, criterion, verdict, lines, tuple(parts), fixed)


def compared(
    evidence: Evidence, target: str, one: str, others: tuple[str, ...], text: str, criterion: str,
    below: bool = True, domains: tuple[str, ...] | None = None,
) -> JudgedClaim:  # fmt: skip
    """A claim about one method against others, at the last checkpoint of every panel."""
    parts = []
    for panel in evidence.panels(target):
        mine = evidence.measured(panel, one)
        for other in others:
            theirs = evidence.measured(panel, other)
            if mine is None or theirs is None or (domains is not None and panel.domain not in domains):
                continue
            parts.append(RatioPart(f"{panel.title}, {label(one)} / {label(other)}", (mine,), (theirs,), below))
    return evidence.judged(target, text, criterion, parts)


def medians_compared(evidence: Evidence, target: str, one: str, other: str) -> JudgedClaim:
    """The claim that one method's median squared error is below that of another, at the last checkpoint."""
    parts = []
    for panel in evidence.panels(target):
        a, b = evidence.measured(panel, one), evidence.measured(panel, other)
        if a is not None and b is not None:
            parts.append(MedianPart(panel.title, a, b))
    return evidence.judged(
        target, f"{label(one)} has a lower median squared error than {label(other)}.",
        "At the last checkpoint the 95 % intervals of the medians (order statistics) do not overlap, in every domain.",
        parts,
    )  # fmt: skip
