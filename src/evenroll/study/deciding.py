"""`reproduce --decide`: adds trials where they decide a claim, by the rule of `spending`, until a time limit.

Which look comes next depends on numbers only, never on the clock: of all undecided claims it is the one whose verdict is
predicted to take the fewest core-seconds more, and of its parts the cheapest. So the looks of a run that was killed or ran
out of time are a beginning of the looks of a run that did not, and a second run goes on where the first one was. When the
time is over, looks are still made if all their trials are in the store. A look at 2ᵏ times the trials of the figure uses
exactly the first of them, even if more are there for the sake of another claim.

The prediction takes the truth to be where the estimate is. A part that is on its way to being reversed decides its claim
alone. Otherwise all undecided parts must hold, and their costs are added up. A part gets no more trials if its whole
interval lies within 1 % of the border, if it lies where the criterion decides nothing, or if the rule has no look left.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenroll.executors.pool import Pool
from evenroll.study.blocks import Block, Work
from evenroll.study.costs import cost
from evenroll.study.evidence import AddedLook, JudgedClaim
from evenroll.study.parts import Part, Reading
from evenroll.study.ratios import FAILS, UNDECIDED, together
from evenroll.study.results import Results, Trialled
from evenroll.study.runner import ensure
from evenroll.study.spending import DOUBLINGS, TYPICAL, confidence, critical, doublings_needed, trials_needed
from evenroll.study.store import Store

MINUTES = 30.0  # the time limit if none is given; a choice


@dataclass(frozen=True)
class DecidingProgress:
    """How far the trials of the next look are.

    target        the target whose claim the look is for
    trials        the number of trials of the look
    share         how much of what the look lacked is there, by estimated cost
    undecided     how many claims are undecided
    seconds_left  until the time limit
    """

    target: str
    trials: int
    share: float
    undecided: int
    seconds_left: float


@dataclass(frozen=True)
class Deciding:
    """What adding trials came to.

    claims         all claims, with the verdicts and notes of the rule
    trials         how many trials were added to those of the figures, whether computed now or by an earlier run
    out_of_time    whether the time limit came before everything was decided or given up
    """

    claims: tuple[JudgedClaim, ...]
    minutes: float
    looks: int
    trials: int
    seconds: float
    out_of_time: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "minutes": self.minutes,
            "looks": self.looks,
            "trials_added": self.trials,
            "seconds": round(self.seconds, 1),
            "out_of_time": self.out_of_time,
        }


def decide(
    claims: Sequence[JudgedClaim],
    trials: Mapping[Work, Trialled],
    store: Store,
    pool: Pool,
    *,
    minutes: float = MINUTES,
    progress: Callable[[DecidingProgress], None] = lambda p: None,
    done: Callable[[Block, bool], None] = lambda block, computed: None,
) -> Deciding:
    """Look at claims again with more trials until each is decided or given up, or the time is over.

    trials    those of the figures, which stay as they are
    done      is called after each block, with whether it was computed; otherwise it was in the store
    """
    started = time.perf_counter()
    until = started + 60.0 * minutes
    collected = dict(trials)
    standings = [_Standing.first(claim, collected) for claim in claims]
    looks, out_of_time = 0, False
    while True:
        ways = [(way.seconds, i, way) for i, s in enumerate(standings) if (way := s.way(collected)) is not None]
        if not ways:
            break
        _, chosen, way = min(ways, key=lambda item: item[:2])
        wanted = way.part.wanted(way.part.doublings + 1)
        if not _collect(wanted, collected, store, pool, until, done, _Teller(progress, standings, chosen, wanted, until)):
            out_of_time = way.part.late = True  # other looks may still find all their trials in the store
            continue
        looks += sum(standing.look(collected) for standing in standings)
    judged = tuple(standing.judged(collected) for standing in standings)
    added = sum(len(t.data.values) - len(trials[work].data.values) for work, t in collected.items())
    return Deciding(judged, minutes, looks, added, time.perf_counter() - started, out_of_time)


# ---- how the claims stand --------------------------------------------------------------------------------------


@dataclass
class _Looked:
    """A part, the number of doublings at its last look, and what that look said."""

    part: Part
    of: int  # how many parts the claim has
    doublings: int
    reading: Reading
    late: bool = False  # whether the trials of the next look are not there, and the time is over

    @classmethod
    def first(cls, part: Part, of: int, collected: Mapping[Work, Trialled]) -> _Looked:
        return cls(part, of, 0, _read(part, of, 0, collected))

    @property
    def open(self) -> bool:
        """Whether the part is undecided, and more trials may change that."""
        stuck = bool(self.reading.closed) or math.isnan(self.reading.strength) or self.doublings == DOUBLINGS
        return self.reading.verdict == UNDECIDED and not stuck

    @property
    def fewest(self) -> int:
        return min(self.part.wanted().values())

    def needed(self) -> int:
        """With how many doublings the part will be decided, by prediction; the last if it will not."""
        found = doublings_needed(self.reading.strength, self.doublings, self.of, self.fewest << self.doublings)
        return DOUBLINGS if found is None else found

    def wanted(self, doublings: int) -> dict[Work, int]:
        return {work: n << doublings for work, n in self.part.wanted().items()}

    def seconds(self, collected: Mapping[Work, Trialled]) -> float:
        """The core-seconds that a verdict is predicted to take."""
        wanted = self.wanted(self.needed())
        return sum(max(n - len(collected[work].data.values), 0) * cost(work) for work, n in wanted.items())

    def look(self, collected: Mapping[Work, Trialled]) -> bool:
        """Look with twice the trials, if they are there."""
        wanted = self.wanted(self.doublings + 1)
        if not self.open or any(len(collected[work].data.values) < n for work, n in wanted.items()):
            return False
        self.doublings, self.late = self.doublings + 1, False
        self.reading = _read(self.part, self.of, self.doublings, collected)
        return True

    def why_open(self, collected: Mapping[Work, Trialled]) -> str:
        """Why the part is undecided, in words, where no time limit is the reason; and what a verdict would take."""
        r = self.reading
        near = f"{r.name}: {r.value:.3g} [{r.low:.3g}, {r.high:.3g}]"  # two digits may round an end onto the border
        shown = f"{r.text if math.isnan(r.value) else near}, {_counted(r.trials)} trials"
        if math.isnan(r.strength):
            return f"{shown}: {r.closed}; more trials will not change that" if r.closed else f"{shown}: it has no interval"
        number = trials_needed(r.strength, self.of, self.fewest << self.doublings)
        about = f"{'more than ' if abs(r.strength) < TYPICAL else ''}about {_two_digits(number)} trials"
        if r.closed:
            return f"{shown}: {r.closed}; {about} would be needed"
        if number > self.fewest << DOUBLINGS or self.doublings == DOUBLINGS:
            return f"{shown}: {about} would be needed, and the rule ends at {self.fewest << DOUBLINGS:,}"
        minutes = self.seconds(collected) / 60.0
        return f"{shown}: at this width {about} are needed, and {_two_digits(minutes)} core-minutes more"


@dataclass
class _Way:
    """The part that is looked at next on the predicted way to a verdict, and the core-seconds of the whole way."""

    seconds: float
    part: _Looked


@dataclass
class _Standing:
    """A claim and how it stands."""

    claim: JudgedClaim
    parts: list[_Looked]

    @classmethod
    def first(cls, claim: JudgedClaim, collected: Mapping[Work, Trialled]) -> _Standing:
        return cls(claim, [_Looked.first(part, len(claim.parts), collected) for part in claim.parts])

    @property
    def verdict(self) -> str:
        if not self.parts:
            return self.claim.verdict
        return together([*(p.reading.verdict for p in self.parts), *self.claim.fixed])

    def _undecided(self) -> list[_Looked]:
        return [p for p in self.parts if p.reading.verdict == UNDECIDED]

    def way(self, collected: Mapping[Work, Trialled]) -> _Way | None:
        """The predicted way to a verdict; None if there is a verdict, or no way, or no time for the next look."""
        undecided = self._undecided()
        if self.verdict != UNDECIDED or not undecided:
            return None
        reversing = [p for p in undecided if p.open and p.reading.strength < 0.0]
        if not reversing and not all(p.open for p in undecided):
            return None  # a part that stays undecided keeps the claim from holding
        costs = [p.seconds(collected) for p in reversing or undecided]
        ready = [(c, i) for i, (c, p) in enumerate(zip(costs, reversing or undecided, strict=True)) if not p.late]
        if not ready:
            return None
        least, place = min(ready)
        return _Way(least if reversing else sum(costs), (reversing or undecided)[place])

    def look(self, collected: Mapping[Work, Trialled]) -> int:
        """Make every look for which the trials are there, and count them."""
        looks = 0
        while self.verdict == UNDECIDED and (made := sum(p.look(collected) for p in self.parts)):
            looks += made
        return looks

    def judged(self, collected: Mapping[Work, Trialled]) -> JudgedClaim:
        """The claim with the verdict of the rule and a note: how many trials it took, or why there is no verdict."""
        added = tuple(AddedLook(p.reading, confidence(p.doublings, p.of)) for p in self.parts if p.doublings)
        return replace(self.claim, verdict=self.verdict, added=added, note=self._note(collected))

    def _note(self, collected: Mapping[Work, Trialled]) -> str:
        if self.verdict != UNDECIDED:
            deciding = [p for p in self.parts if p.reading.verdict == FAILS or self.verdict != FAILS]
            most = max(deciding, key=lambda p: p.doublings, default=None)
            if most is None or not most.doublings:
                return ""
            before = _counted(tuple(sorted(set(most.part.wanted().values()))))
            return f"Decided with {_counted(most.reading.trials)} trials instead of {before}."
        undecided = self._undecided()
        if not undecided and not self.claim.numbers:
            return "Left undecided: nothing that it compares was run."
        if not undecided:
            return "Left undecided: its criterion is about the figure’s own trials, and none are added for it."
        late = [p for p in undecided if p.late]
        if late:
            return f"Left undecided by the time limit: {max(late, key=lambda p: p.seconds(collected)).why_open(collected)}."
        stuck = next(p for p in undecided if not p.open)
        return f"Left undecided: {stuck.why_open(collected)}."


def _read(part: Part, of: int, doublings: int, collected: Mapping[Work, Trialled]) -> Reading:
    """What the first trials say that the look with so many doublings has."""
    wanted = {work: n << doublings for work, n in part.wanted().items()}
    results = Results({work: collected[work].first(n) for work, n in wanted.items()})
    return part.read(results, critical(doublings, of, min(wanted.values())))


def _counted(numbers: tuple[int, ...]) -> str:
    return " and ".join(f"{n:,}" for n in numbers)


def _two_digits(number: float) -> str:
    return f"{float(f'{number:.2g}'):,.10g}"


# ---- collecting ------------------------------------------------------------------------------------------------


class _Teller:
    """Tells of the look that is being collected for. A block counts for its estimated cost."""

    def __init__(
        self, tell: Callable[[DecidingProgress], None], standings: Sequence[_Standing], chosen: int,
        wanted: Mapping[Work, int], until: float,
    ) -> None:  # fmt: skip
        self.tell, self.until = tell, until
        self.target, self.trials = standings[chosen].claim.target, min(wanted.values())
        self.undecided = sum(s.verdict == UNDECIDED for s in standings)
        self.total = self.finished = 0.0

    def begin(self, blocks: Sequence[Block]) -> None:
        self.total = sum(block.count * cost(block.work) for block in blocks)
        self._say()

    def one(self, block: Block) -> None:
        self.finished += block.count * cost(block.work)
        self._say()

    def _say(self) -> None:
        share = self.finished / self.total if self.total else 1.0
        left = max(self.until - time.perf_counter(), 0.0)
        self.tell(DecidingProgress(self.target, self.trials, share, self.undecided, left))


def _collect(
    wanted: Mapping[Work, int], collected: dict[Work, Trialled], store: Store, pool: Pool, until: float,
    done: Callable[[Block, bool], None], teller: _Teller,
) -> bool:  # fmt: skip
    """Bring these works to so many trials, doubling by doubling, so that blocks do not depend on who wanted them first.

    Says whether all of them are there. Otherwise the time was over; what was computed is in the store.
    """
    blocks = {work: _further(work, len(collected[work].data.values), n) for work, n in wanted.items()}
    listed = [block for part in blocks.values() for block in part]
    teller.begin(listed)

    def note(block: Block, computed: bool) -> None:
        done(block, computed)
        teller.one(block)

    there = ensure(store, listed, pool=pool, done=note, until=until)
    if len(there) < len(listed):
        return False
    for work, part in blocks.items():
        if part:
            collected[work] = collected[work].followed_by([there[block] for block in part])
    return True


def _further(work: Work, there: int, trials: int) -> list[Block]:
    """The blocks from so many trials to so many. Each doubling has blocks of its own."""
    blocks: list[Block] = []
    while there < trials:
        blocks += work.further_blocks(there, 2 * there)
        there *= 2
    return blocks
