"""What a comparison of two policies found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError
from evenroll.evaluation.deciding import ALIKE, FIRST_BETTER, SECOND_BETTER, UNDECIDED
from evenroll.evaluation.difference_picture import draw_pairs, paired
from evenroll.evaluation.pairs import of_quantity
from evenroll.evaluation.presenting import Presented, of_plain, page_piece
from evenroll.evaluation.report_page import difference_page
from evenroll.evaluation.result import Evaluation
from evenroll.files.figures import save_figure
from evenroll.files.pages import save_page
from evenroll.text.numbers import precise, with_interval

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Difference(Presented):
    """How much more the first policy is worth than the second.

    value       the estimate of the difference: the first policy's value minus the second's. It is made of the paired
                returns, with the luck found in them taken out, and may differ a little from first.value − second.value.
    low, high   the interval, which holds the true difference with probability `confidence`; None if there is none
    confidence  the confidence of the interval
    why         the reason why there is no interval; None if there is one
    note        what to know about the interval, or None
    alone       the half-width if each policy had met its own starts, for comparison; None if one has no interval
    first       the evaluation of the first policy
    second      the evaluation of the second policy
    interrupted  whether collecting was interrupted, so that fewer starts are compared than was asked for
    quantity    what is compared: return, or success
    verdict     what was decided, if it was to be decided: first (is better by more than the margin), second, alike (they
                differ by less than the margin), undecided; for a gate: not worse, worse, undecided. Otherwise None.
    margin      how large a difference counts
    most        how many pairs of episodes there could have been at most, if it was to be decided
    undecided   the reason why nothing was decided; None if something was
    fixed_size  about how many on-policy pairs a test with a fixed number of them needs to see, with a probability of 80 %,
                that a difference as large as the one found is beyond the margin; None if it is not beyond it, or unknown
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    why: str | None
    note: str | None
    alone: float | None
    first: Evaluation
    second: Evaluation
    interrupted: bool = False
    quantity: str = "return"
    verdict: str | None = None
    margin: float = 0.0
    most: int | None = None
    undecided: str | None = None
    fixed_size: int | None = None
    _call: str | None = field(default=None, repr=False, compare=False)  # the Python line that made it, for `report`

    @property
    def pairs(self) -> int:
        """How many pairs of episodes are compared."""
        return min(self.first.episodes, self.second.episodes)

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def rollouts(self) -> tuple[Rollouts | None, Rollouts | None]:
        """The data of both policies; None in a result that was read from JSON or unpickled."""
        return self.first.rollouts, self.second.rollouts

    def gaps(self) -> np.ndarray | None:
        """The difference of every pair; None in a result without data."""
        first, second = self.rollouts
        if first is None or second is None:
            return None
        return paired(of_quantity(first, self.quantity).returns, of_quantity(second, self.quantity).returns)

    @classmethod
    def from_json(cls, told: Mapping[str, Any] | str) -> Difference:
        """The result of which `to_json` has told, without its data. What this version does not know is left out."""
        return of_plain(cls, told, first=Evaluation.from_json, second=Evaluation.from_json)

    def plot(self, path: str | Path | None = None) -> Figure:
        """The difference of every pair of episodes, their running mean, and the interval of what was found.

        If there is a `path`, the picture is saved there, in the format that its name says.
        """
        gaps = self.gaps()
        if gaps is None:
            raise DataError("a result that was read from JSON or unpickled has no data to draw: compare again")
        interval = None if self.low is None or self.high is None else (self.low, self.high)
        figure = draw_pairs(gaps, self.value, interval, self.confidence, str(self))
        if path is not None:
            save_figure(figure, path)
        return figure

    def report(self, path: str | Path, command: str | None = None) -> Path:
        """Write the verdict and both evaluations as one web page, with its pictures, that needs nothing else (`.html`).

        command  the command that repeats the comparison, if it was not a call in Python
        """
        save_page(difference_page(self, command), path)
        return Path(path)

    def _repr_html_(self) -> str:
        return page_piece(str(self), self.in_words(), None)

    def number(self) -> str:
        """The difference with its interval, as `print` begins."""
        text = with_interval(self.value, self.low, self.high, "+", f"{100 * self.confidence:g} %")
        return text + (" (no interval)" if self.low is None else "")

    def __str__(self) -> str:
        return f"{self.number()}, {self.first.episodes} episodes each" + (", interrupted" if self.interrupted else "")

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of both evaluations, each once."""
        return tuple(dict.fromkeys((*self.first.warnings, *self.second.warnings)))

    def in_words(self) -> str:
        return self.worth() + "".join(f" Warning: {text}." for text in self.warnings)

    def _values(self, half: float) -> str:
        if self.quantity == "success":
            shares = [one.quantities["success"].value for one in (self.first, self.second)]
            return f"success in {100 * shares[0]:.3g} % against {100 * shares[1]:.3g} %"
        return f"{precise(self.first.value, half)} against {precise(self.second.value, half)}"

    def worth(self) -> str:
        """The verdict, both values, and the interval of their difference with what to know about it."""
        half = self.half_width or 0.0
        values = self._values(half)
        if self.low is None or self.high is None:
            return f"{self.in_short()}: {values}; no interval: {self.why}."
        note = "" if self.note is None else f" Note: {self.note}."
        low, high = precise(self.low, half, sign="+"), precise(self.high, half, sign="+")
        return f"{self.in_short()}: {values}, a difference of {low} … {high}.{self._took()}{note}"

    def in_short(self) -> str:
        """Which policy is better, as far as the interval tells."""
        if self.low is None or self.high is None:
            return "Which is better cannot be told"
        beyond = f" by more than {self.margin:g}" if self.margin else ""
        if self.verdict is None:
            if self.low > 0.0:
                return "The first policy is better"
            return "The second policy is better" if self.high < 0.0 else "Which is better cannot be told yet"
        if self.verdict == UNDECIDED:
            return f"Undecided ({self.undecided})"
        return {
            FIRST_BETTER: f"The first policy is better{beyond}",
            SECOND_BETTER: f"The second policy is better{beyond}",
            ALIKE: f"They differ by less than {self.margin:g}",
        }.get(self.verdict, f"The first policy is {self.verdict} than the second{beyond}")

    def _took(self) -> str:
        if self.verdict is None:
            return ""
        text = f" That took {self.pairs} pairs of at most {self.most}."
        if self.fixed_size is None or self.verdict in (UNDECIDED, ALIKE):
            return text
        return (
            f"{text} A test with a number of pairs that is fixed beforehand, on-policy, would need about {self.fixed_size}."
        )
