"""`evenroll reproduce`: compute and store the blocks that are missing for some targets, then draw figures and the page."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenroll.errors import EvenrollError, SpecError
from evenroll.executors.pool import Pool, get_pool
from evenroll.study.blocks import Block, Work
from evenroll.study.claims import claims
from evenroll.study.costs import cost, note_timing
from evenroll.study.deciding import Deciding, DecidingProgress, decide
from evenroll.study.evidence import Evidence, JudgedClaim
from evenroll.study.experiments import Roster, Scale, targets
from evenroll.study.figures import draw
from evenroll.study.report import write_report
from evenroll.study.results import Results, Trialled
from evenroll.study.runner import ensure
from evenroll.study.store import Store
from evenroll.study.targets import PaperTarget
from evenroll.text.specs import closest

PAGE_EVERY = 60.0  # seconds between two pages of what a long run has done so far; a choice


@dataclass(frozen=True)
class ReproductionProgress:
    """The shares that are done by estimated cost, and the seconds that are left at the pace so far.

    `share` and `left` are of the current target, `whole` and `whole_left` of all targets together. While trials are added to
    decide claims, the current target is the next look, and the whole is the time limit.
    """

    target: str
    share: float
    whole: float
    left: float | None
    whole_left: float | None
    whole_name: str = "everything"


@dataclass(frozen=True)
class Outcome:
    """What a run did and left behind. `deciding` is what adding trials came to, if that was asked for."""

    computed: int  # blocks that were missing
    read: int  # blocks that were in the store
    seconds: float
    files: tuple[Path, ...]
    claims: tuple[JudgedClaim, ...]
    deciding: Deciding | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "blocks_computed": self.computed,
            "blocks_read": self.read,
            "seconds": round(self.seconds, 1),
            "files": [str(path) for path in self.files],
            "claims": [claim.to_json() for claim in self.claims],
            **({} if self.deciding is None else {"deciding": self.deciding.to_json()}),
        }


def choose(names: Sequence[str], scale: Scale, roster: Roster) -> list[PaperTarget]:
    """The targets of these names, in the paper's order. The name `all` means all of them."""
    known = targets(scale, roster)
    for name in names:
        if name != "all" and name not in known:
            raise SpecError(f"unknown target {name!r}{closest(name, known)}; known: all, {', '.join(known)}")
    return [target for name, target in known.items() if "all" in names or name in names]


def reproduce(
    names: Sequence[str],
    directory: str | Path,
    *,
    scale: Scale,
    roster: Roster,
    workers: int | None = None,
    executor: str | Pool = "threads",
    decide_minutes: float | None = None,
    progress: Callable[[ReproductionProgress], None] = lambda p: None,
    say: Callable[[str], None] = lambda message: None,
) -> Outcome:
    """Compute what is missing for these targets, draw them, and write the page. All files are whole at any moment.

    decide_minutes  if given, trials are then added for claims that are undecided, for at most so many minutes (`deciding`).
                    Figures, tables and curves keep the trials of `scale`; only claims are judged anew.
    """
    if decide_minutes is not None and not 0.0 <= decide_minutes < math.inf:
        raise SpecError(f"the time limit must be a number of minutes, 0 or more, not {decide_minutes:g}")
    directory = Path(directory)
    pool = get_pool(executor, workers)
    selected_targets = choose(names, scale, roster)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvenrollError(f"cannot make {directory}: {error.strerror or error}") from None
    store = Store(directory / "store", say)
    pace = _Pace(selected_targets, progress)
    trials_by_work: dict[Work, Trialled] = {}
    files: list[Path] = []
    started = time.perf_counter()
    counts = {True: 0, False: 0}
    early: set[Block] = set()  # computed with blocks of an earlier target, because their data is the same
    written = started
    for target in selected_targets:
        pace.begin(target)
        begun, alone = time.perf_counter(), True

        def note(block: Block, computed: bool) -> None:
            nonlocal alone
            alone = alone and computed
            if block not in early:
                counts[computed] += 1
                pace.one(block, computed)

        def ahead(block: Block) -> None:
            nonlocal alone
            alone = False
            early.add(block)
            counts[True] += 1
            pace.ahead(block)

        wanted = {w: n for w, n in target.wanted().items() if w not in trials_by_work}
        blocks = {work: work.blocks(n) for work, n in wanted.items()}
        rest = selected_targets[selected_targets.index(target) + 1 :]
        later = {w: n for t in rest for w, n in t.wanted().items() if w not in wanted and w not in trials_by_work}
        there = ensure(
            store, [b for part in blocks.values() for b in part], pool=pool, done=note,
            later=[b for work, n in later.items() for b in work.blocks(n)], ahead=ahead,
        )  # fmt: skip
        trials_by_work |= {work: Trialled.of(work, [there[b] for b in part]) for work, part in blocks.items()}
        results = Results(trials_by_work)
        files += draw(target, results, directory, scale)
        if alone and len(wanted) == len(target.wanted()):
            note_timing(directory, target, time.perf_counter() - begun, workers)
        if target is selected_targets[-1] or time.perf_counter() - written > PAGE_EVERY:
            page = write_report(
                selected_targets[: selected_targets.index(target) + 1], results, directory / "report.html", scale
            )
            written = time.perf_counter()
    judged = tuple(claims(Evidence({t.name: t for t in selected_targets}, results)))
    deciding = None
    if decide_minutes is not None:
        deciding = decide(
            judged, trials_by_work, store, pool, minutes=decide_minutes, progress=_while_deciding(decide_minutes, progress),
            done=lambda block, computed: counts.update({computed: counts[computed] + 1}),
        )  # fmt: skip
        judged = deciding.claims
        page = write_report(selected_targets, results, directory / "report.html", scale, judged)
    seconds = time.perf_counter() - started
    return Outcome(counts[True], counts[False], seconds, (*files, page), judged, deciding)


def _while_deciding(minutes: float, progress: Callable[[ReproductionProgress], None]) -> Callable[[DecidingProgress], None]:
    """Tells of looks in the words of a run: the whole is the time limit, as nobody knows which looks will be needed."""

    def tell(p: DecidingProgress) -> None:
        used = 1.0 - p.seconds_left / (60.0 * minutes) if minutes else 1.0
        name = f"undecided claims: {p.undecided}"
        progress(ReproductionProgress(f"{p.target}, {p.trials:,} trials", p.share, used, None, p.seconds_left, name))

    return tell


class _Pace:
    """Keeps the time. A block that is read counts for nothing, and one that is computed for its estimated cost."""

    def __init__(self, chosen: Sequence[PaperTarget], progress: Callable[[ReproductionProgress], None]) -> None:
        self.progress = progress
        self.new: dict[str, dict[Work, int]] = {}
        seen: set[Work] = set()
        for target in chosen:
            wanted = target.wanted()
            self.new[target.name] = {w: n for w, n in wanted.items() if w not in seen}
            seen |= wanted.keys()
        self.totals = {name: sum(n * cost(w) for w, n in works.items()) for name, works in self.new.items()}
        self.spent = dict.fromkeys(self.totals, 0.0)
        self.early = 0.0
        self.skipped = dict.fromkeys(self.totals, 0.0)
        self.started = time.perf_counter()
        self.name = ""

    def begin(self, target: PaperTarget) -> None:
        self.name = target.name
        self._tell()

    def one(self, block: Block, computed: bool) -> None:
        (self.spent if computed else self.skipped)[self.name] += block.count * cost(block.work)
        self._tell()

    def ahead(self, block: Block) -> None:
        """A block of a later target was computed."""
        owner = next(name for name, works in self.new.items() if block.work in works)
        self.skipped[owner] += block.count * cost(block.work)
        self.early += block.count * cost(block.work)
        self._tell()

    def _tell(self) -> None:
        elapsed, spent = time.perf_counter() - self.started, self.early + sum(self.spent.values())
        speed = spent / elapsed if spent else None
        done = {name: self.spent[name] + self.skipped[name] for name in self.totals}
        names = list(self.totals)
        for name in names[: names.index(self.name)]:
            done[name] = self.totals[name]
        left = max(self.totals[self.name] - done[self.name], 0.0)
        whole, whole_left = sum(self.totals.values()), max(sum(self.totals.values()) - sum(done.values()), 0.0)
        self.progress(
            ReproductionProgress(
                self.name,
                1.0 - left / self.totals[self.name] if self.totals[self.name] else 1.0,
                1.0 - whole_left / whole if whole else 1.0,
                left / speed if speed else None,
                whole_left / speed if speed else None,
            )
        )
