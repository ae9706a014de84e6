"""Collecting pairs of episodes until a question about their difference is decided (intervals/sequential.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import SpecError
from evenroll.evaluation.pairs import Compared, Side, compared, side_of, whole_groups
from evenroll.evaluation.sources import Source
from evenroll.intervals.independent import Interval, NoInterval
from evenroll.intervals.sequential import (
    FIRST,
    HOPELESS,
    PATIENT,
    chance_to_decide,
    for_rare_failures,
    levels,
    looks,
)
from evenroll.intervals.success_pairs import paired_shares, success_test
from evenroll.text.specs import whole_number

FIRST_BETTER, SECOND_BETTER, ALIKE, UNDECIDED = "first", "second", "alike", "undecided"
NOT_WORSE, WORSE = "not worse", "worse"


@dataclass(frozen=True)
class Question:
    """What is asked of the difference d of two policies.

    margin  how much counts. Without `gate`: is d above the margin (first), below minus the margin (second), or, if there
            is a margin, between the two (alike)?
    gate    ask only whether d lies above minus the margin (not worse) or below it (worse)
    """

    margin: float = 0.0
    gate: bool = False

    def verdict(self, low: float, high: float) -> str | None:
        """What an interval of d decides; None if nothing."""
        if self.gate:
            return NOT_WORSE if low > -self.margin else WORSE if high < -self.margin else None
        if low > self.margin:
            return FIRST_BETTER
        if high < -self.margin:
            return SECOND_BETTER
        return ALIKE if self.margin > 0.0 and -self.margin <= low and high <= self.margin else None

    def signed(self, sign: int) -> str:
        """What it means that d was found to lie above (1) or below (−1) the only threshold."""
        return (NOT_WORSE, WORSE)[sign < 0] if self.gate else (FIRST_BETTER, SECOND_BETTER)[sign < 0]

    @property
    def one_threshold(self) -> bool:
        """Whether the question is only on which side of 0 the difference lies."""
        return self.margin == 0.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Outside of these d is decided, one way or the other."""
        return (-self.margin, -self.margin if self.gate else self.margin)


@dataclass(frozen=True)
class Decided:
    """How far collecting came, and what it showed.

    pairs    how many pairs of episodes there are
    verdict  one of the words above
    found    the difference; its interval belongs to the last look, and all looks together keep the confidence
    level    the two-sided level of the last look
    why      why nothing was decided; None if something was
    """

    pairs: int
    verdict: str
    found: Compared
    level: float
    why: str | None


class Looking:
    """Looks at two sources that collect pair by pair. What an earlier run has looked at is not looked at again."""

    def __init__(self, sources: Sequence[Source], question: Question, most: int, confidence: float, quantity: str) -> None:
        if whole_number("most", most, 1) < FIRST:
            raise SpecError(f"deciding needs at least {FIRST} pairs of episodes: most={most} is too few")
        if not np.isfinite(question.margin) or question.margin < 0.0:
            raise SpecError(f"margin must be 0 or a number above it, not {question.margin}")
        self.sources, self.question, self.most, self.quantity = sources, question, most, quantity
        self.confidence = confidence
        self.when = looks(most, whole_groups(sources[0]))
        self.levels = dict(zip(self.when, levels(self.when, 1.0 - confidence), strict=True))
        self.signs = success_test(self.when, 1.0 - confidence) if quantity == "success" and question.one_threshold else None

    def level_at(self, pairs: int) -> float:
        """The level of the last look that this many pairs have had."""
        return self.levels[max((n for n in self.when if n <= pairs), default=self.when[0])]

    def run(self, there: Sequence[int], after: Callable[[int, Compared], None]) -> Decided:
        """Collect and look until something is decided.

        there  how many pairs the sources have from earlier runs; those have been looked at without a verdict
        after  is told of every look
        """
        with single_threaded_blas():
            for n in self.when:
                for source, known in zip(self.sources, there, strict=True):
                    if n > known:
                        for _ in source.collect(n - known, None, at_once=True):
                            pass
                seen = n <= min(there) and n < self.most
                decided = self.look(n) if self.signs is not None or not seen else None
                if decided is None or seen:
                    continue
                after(n, decided.found)
                if decided.verdict != UNDECIDED or decided.why is not None:
                    return decided
        raise AssertionError("the last look always has a verdict or a reason")

    def look(self, n: int) -> Decided:
        """What the first n pairs show."""
        sides = [side_of(source, self.quantity, n) for source in self.sources]
        level = self.levels[n]
        found, verdict = self._success(sides, n, level) if self.quantity == "success" else self._return(sides, level)
        if verdict is not None:
            return Decided(n, verdict, found, level, None)
        if n >= self.most:
            return Decided(n, UNDECIDED, found, level, f"{self.most} pairs were not enough")
        return Decided(n, UNDECIDED, found, level, self._hopeless(found, n))

    def _return(self, sides: Sequence[Side], level: float) -> tuple[Compared, str | None]:
        found = compared(sides[0], sides[1], 1.0 - level)
        if isinstance(found.interval, NoInterval):
            return found, None
        pairs = len(sides[0].values)
        interval = replace(for_rare_failures(found.interval, found.value, pairs), confidence=self.confidence)
        verdict = self.question.verdict(interval.low, interval.high)
        if verdict is not None:  # the guard takes its time, so it is asked only when it matters
            for which, side in zip(("first", "second"), sides, strict=True):
                away = side.away()
                if away is not None:
                    return replace(found, interval=NoInterval(f"the {which} policy: {away}")), None
        return replace(found, interval=interval), verdict

    def _success(self, sides: Sequence[Side], n: int, level: float) -> tuple[Compared, str | None]:
        wins, losses = wins_and_losses(sides)
        low, high = paired_shares(wins, losses, n, level)
        verdict = self.question.verdict(low, high)
        if self.signs is not None:
            sign = self.signs.look(n, wins, losses)
            verdict = self.question.signed(sign) if sign else None
            if sign:  # the test of 0 is exact, and the interval follows it
                low, high = (max(low, 0.0), high) if sign > 0 else (low, min(high, 0.0))
            else:
                low, high = min(low, 0.0), max(high, 0.0)
        shares = (wins + losses - (wins - losses) ** 2 / n) / n
        made = Interval(low, high, self.confidence, "binomial")
        return Compared((wins - losses) / n, made, float(np.sqrt(max(shares, 1.0 / n) / n))), verdict

    def _hopeless(self, found: Compared, n: int) -> str | None:
        """Why going on is not worth while; None if it is."""
        if self.question.margin > 0.0 and not self.question.gate:
            return None  # that both are alike may still be shown
        if isinstance(found.interval, NoInterval) or n < self.most * PATIENT:
            return None
        lucky = {"lucky": 1.0} if self.quantity == "success" else {}  # success rates are not learnt better with time
        chance = chance_to_decide(found.value, found.error, n, self.most, self.question.bounds, **lucky)
        unlikely = f"a verdict within {self.most} pairs is unlikely: its chance is below {100 * HOPELESS:.0f} %"
        return None if chance > HOPELESS else unlikely


def wins_and_losses(sides: Sequence[Side]) -> tuple[int, int]:
    """In how many pairs only the first succeeded, and in how many only the second did."""
    gaps = sides[0].values - sides[1].values
    return int((gaps > 0.0).sum()), int((gaps < 0.0).sum())
