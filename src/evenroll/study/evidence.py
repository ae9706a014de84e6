"""What a claim is judged by: the targets that were run, their results, and comparisons of methods within a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenroll.study.ratios import FAILS, HOLDS, UNDECIDED, Number, Ratio, below, shown, together
from evenroll.study.results import Results, statistic
from evenroll.study.targets import Line, Panel, PaperTarget, label


@dataclass(frozen=True)
class JudgedClaim:
    """A claim about a target, the criterion that was fixed beforehand, and the verdict with its numbers."""

    target: str
    text: str
    criterion: str
    verdict: str
    numbers: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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

    def at(self, panel: Panel, method: str, place: int = -1) -> Number | None:
        """The panel's quantity at a checkpoint, if the method is in it. A median has no standard error."""
        line = self.line(panel, method)
        if line is None:
            return None
        mean, _, high = statistic(self.results.curve(line), panel.quantity)
        return Number(float(mean[place]), math.nan if panel.quantity == "median" else float(high[place] - mean[place]))


def compared(
    evidence: Evidence, target: str, one: str, others: tuple[str, ...], text: str, criterion: str,
    judge: Callable[[Ratio], str] = below, domains: tuple[str, ...] | None = None,
) -> JudgedClaim:  # fmt: skip
    """A claim about one method against others, at the last checkpoint of every panel."""
    verdicts, numbers = [], []
    for panel in evidence.panels(target):
        mine = evidence.at(panel, one)
        for other in others:
            theirs = evidence.at(panel, other)
            if mine is None or theirs is None or (domains is not None and panel.domain not in domains):
                continue
            ratio = mine.over(theirs)
            verdicts.append(judge(ratio))
            numbers.append(shown(f"{panel.title}, {label(one)} / {label(other)}", ratio))
    return JudgedClaim(target, text, criterion, together(verdicts), tuple(numbers))


def medians_compared(evidence: Evidence, target: str, one: str, other: str) -> JudgedClaim:
    """The claim that one method's median squared error is below that of another, at the last checkpoint."""
    verdicts, numbers = [], []
    for panel in evidence.panels(target):
        a, b = evidence.line(panel, one), evidence.line(panel, other)
        if a is None or b is None:
            continue
        x, y = (evidence.results.curve(line).squared[:, -1] for line in (a, b))
        mine, theirs = (median_interval(v) for v in (x, y))
        verdicts.append(HOLDS if mine[1] < theirs[0] else FAILS if mine[0] > theirs[1] else UNDECIDED)
        medians = [f"{np.median(v):.2g} [{i[0]:.2g}, {i[1]:.2g}]" for v, i in ((x, mine), (y, theirs))]
        numbers.append(f"{panel.title}: {medians[0]} against {medians[1]}")
    return JudgedClaim(
        target, f"{label(one)} has a lower median squared error than {label(other)}.",
        "At the last checkpoint the 95 % intervals of the medians (order statistics) do not overlap, in every domain.",
        together(verdicts), tuple(numbers),
    )  # fmt: skip


def median_interval(x: np.ndarray) -> tuple[float, float]:
    """A 95 % interval of the median for any distribution: the order statistics n/2 ± 0.98 √n."""
    x = np.sort(x[~np.isnan(x)])
    half = 0.98 * math.sqrt(len(x))
    low, high = max(math.floor(len(x) / 2 - half), 0), min(math.ceil(len(x) / 2 + half), len(x) - 1)
    return float(x[low]), float(x[high])
