"""`evenroll reproduce`: targets → missing blocks computed and stored → figures and one page."""

from __future__ import annotations

import functools
import importlib.util
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenroll.errors import DataError, EvenrollError, SpecError
from evenroll.executors.pool import Pool, default_workers, get_pool
from evenroll.files.safe_files import read_bytes, read_json, write_atomically
from evenroll.study.blocks import Block, Work, resolve
from evenroll.study.claims import Claim, Evidence, claims
from evenroll.study.experiments import Roster, Scale, Target, targets
from evenroll.study.figures import draw
from evenroll.study.report import write_report
from evenroll.study.results import Results, Trialled
from evenroll.study.runner import ensure
from evenroll.study.store import Store
from evenroll.text.specs import closest

# ---- what it costs -------------------------------------------------------------------------------------------

# Core-microseconds per environment step and, for `fit`, per step and checkpoint ladder; measured by `evenroll reproduce`
# on two cores. They only weigh the progress bar and the times of --list; results do not depend on them.
COLLECT = {
    "table": {"os": 0.4, "ros": 0.5, "bpg": 0.5, "auto": 0.9},
    "softmax": {"os": 0.25, "ros": 0.8, "bpg": 1.1, "auto": 0.8},
    "gaussian": {"os": 0.3, "ros": 0.8, "bpg": 1.25, "auto": 0.85},
}
FIT = {"table": 0.3, "softmax": 3.2, "gaussian": 6.2}
NETWORK_FIT = {"table": 4.0, "softmax": 4.0, "gaussian": 4.0}  # core-seconds per fit of fqe-net-small
LARGE_NETWORK = 40.0  # of fqe-net
LINEAR_FIT = {"table": 0.1, "softmax": 4.0, "gaussian": 8.0}  # core-microseconds per step and checkpoint of fqe
PER_TRIAL = 0.5e-3  # core-seconds
PAGE_EVERY = 60.0  # seconds: so that a long run has a page of what is done so far


@functools.cache
def cost(work: Work) -> float:
    """Core-seconds of one trial, about."""
    trials = resolve(work)
    policy = trials.policy
    kind = "table" if policy.n_states is not None else "softmax" if policy.n_actions is not None else "gaussian"
    steps, ladder = trials.checkpoints[-1], sum(trials.checkpoints)
    micro = steps * COLLECT[kind].get(trials.sampler.name, 1.5)
    if trials.sampling_error or "wris" in trials.columns:
        micro += ladder / 2 * FIT[kind]
    if "fqe" in trials.columns:
        micro += ladder * LINEAR_FIT[kind]
    seconds = PER_TRIAL + 1e-6 * micro
    if "fqe-net-small" in trials.columns:
        seconds += NETWORK_FIT[kind] * len(trials.checkpoints)
    if "fqe-net" in trials.columns:
        seconds += LARGE_NETWORK * len(trials.checkpoints)
    return seconds


@dataclass(frozen=True)
class Plan:
    """What a target takes if nothing is there yet."""

    target: Target
    env_steps: int
    seconds: float  # estimated, on as many workers as asked for
    measured: float | None  # seconds it took here, when nothing was there


def plans(chosen: Iterable[Target], workers: int, directory: Path | None) -> list[Plan]:
    known = _timings(directory)
    result = []
    for target in chosen:
        wanted, steps = target.wanted(), _env_steps(target)
        seconds = sum(n * cost(w) for w, n in wanted.items()) / workers
        result.append(Plan(target, steps, seconds, known.get(_timing_key(target))))
    return result


def total_seconds(chosen: Iterable[Target]) -> float:
    """Core-seconds of all of them together, if nothing is there yet; what they share is counted once."""
    most: dict[Work, int] = {}
    for target in chosen:
        for work, trials in target.wanted().items():
            most[work] = max(most.get(work, 0), trials)
    return sum(trials * cost(work) for work, trials in most.items())


# ---- running -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """Shares done, of the whole and of the current target, by estimated cost; seconds left at the pace so far."""

    target: str
    share: float
    whole: float
    left: float | None
    whole_left: float | None


@dataclass(frozen=True)
class Outcome:
    """What a run did and left behind."""

    computed: int  # blocks
    read: int
    seconds: float
    files: tuple[Path, ...]
    claims: tuple[Claim, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "blocks_computed": self.computed,
            "blocks_read": self.read,
            "seconds": round(self.seconds, 1),
            "files": [str(path) for path in self.files],
            "claims": [claim.to_json() for claim in self.claims],
        }


def choose(names: Sequence[str], scale: Scale, roster: Roster) -> list[Target]:
    """Targets by name, in the paper's order; `all` is all."""
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
    progress: Callable[[Progress], None] = lambda p: None,
    say: Callable[[str], None] = lambda message: None,
) -> Outcome:
    """Compute what is missing for these targets, draw them, and write the page. At any moment all files are whole."""
    directory = Path(directory)
    pool = get_pool(executor, workers)
    chosen = choose(names, scale, roster)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvenrollError(f"cannot make {directory}: {error.strerror or error}") from None
    _require_torch(chosen)
    store = Store(directory / "store", say)
    pace = _Pace(chosen, progress)
    found: dict[Work, Trialled] = {}
    files: list[Path] = []
    started = time.perf_counter()
    counts = {True: 0, False: 0}
    written = started
    for target in chosen:
        pace.begin(target)
        begun, before = time.perf_counter(), dict(counts)

        def note(block: Block, computed: bool) -> None:
            counts[computed] += 1
            pace.one(block, computed)

        wanted = {w: n for w, n in target.wanted().items() if w not in found}
        blocks = {work: work.blocks(n) for work, n in wanted.items()}
        there = ensure(store, [b for part in blocks.values() for b in part], pool=pool, done=note)
        found |= {work: Trialled.of(work, [there[b] for b in part]) for work, part in blocks.items()}
        results = Results(found)
        files += draw(target, results, directory, scale)
        if counts[False] == before[False] and len(wanted) == len(target.wanted()):
            _note_timing(directory, _timing_key(target), time.perf_counter() - begun, workers)
        if target is chosen[-1] or time.perf_counter() - written > PAGE_EVERY:
            page = write_report(chosen[: chosen.index(target) + 1], results, directory / "report.html", scale)
            written = time.perf_counter()
    judged = claims(Evidence({t.name: t for t in chosen}, Results(found)))
    return Outcome(counts[True], counts[False], time.perf_counter() - started, (*files, page), tuple(judged))


def _require_torch(chosen: Sequence[Target]) -> None:
    """Networks are fitted at the end of a run that may take an hour: whoever lacks torch learns it at the start."""
    needs = [t.name for t in chosen if any(m.startswith("fqe-net") for work in t.wanted() for m in work.measures)]
    if needs and importlib.util.find_spec("torch") is None:
        raise EvenrollError(
            f"{', '.join(needs)} fits networks and needs torch: pip install 'evenroll[torch]', or leave it out"
        )


class _Pace:
    """Keeps the time: what is read counts for nothing, what is computed for its estimated cost."""

    def __init__(self, chosen: Sequence[Target], progress: Callable[[Progress], None]) -> None:
        self.progress = progress
        self.new: dict[str, dict[Work, int]] = {}
        seen: set[Work] = set()
        for target in chosen:
            wanted = target.wanted()
            self.new[target.name] = {w: n for w, n in wanted.items() if w not in seen}
            seen |= wanted.keys()
        self.totals = {name: sum(n * cost(w) for w, n in works.items()) for name, works in self.new.items()}
        self.spent = dict.fromkeys(self.totals, 0.0)
        self.skipped = dict.fromkeys(self.totals, 0.0)
        self.started = time.perf_counter()
        self.name = ""

    def begin(self, target: Target) -> None:
        self.name = target.name
        self._tell()

    def one(self, block: Block, computed: bool) -> None:
        (self.spent if computed else self.skipped)[self.name] += block.count * cost(block.work)
        self._tell()

    def _tell(self) -> None:
        elapsed, spent = time.perf_counter() - self.started, sum(self.spent.values())
        speed = spent / elapsed if spent else None
        done = {name: self.spent[name] + self.skipped[name] for name in self.totals}
        names = list(self.totals)
        for name in names[: names.index(self.name)]:
            done[name] = self.totals[name]
        left = max(self.totals[self.name] - done[self.name], 0.0)
        whole, whole_left = sum(self.totals.values()), max(sum(self.totals.values()) - sum(done.values()), 0.0)
        self.progress(
            Progress(
                self.name,
                1.0 - left / self.totals[self.name] if self.totals[self.name] else 1.0,
                1.0 - whole_left / whole if whole else 1.0,
                left / speed if speed else None,
                whole_left / speed if speed else None,
            )
        )


def _timings(directory: Path | None) -> dict[str, float]:
    if directory is None:
        return {}
    try:
        told = read_json(read_bytes(directory / "timings.json", 1 << 20, DataError), "it", DataError)["seconds"]
        return {name: float(seconds) for name, seconds in told.items()}
    except (DataError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return {}


def _env_steps(target: Target) -> int:
    return sum(n * resolve(work).checkpoints[-1] for work, n in target.wanted().items())


def _timing_key(target: Target) -> str:
    """Name and size: another roster or scale takes other times."""
    return f"{target.name}, {_env_steps(target):,} steps"


def _note_timing(directory: Path, name: str, seconds: float, workers: int | None) -> None:
    """How long targets took when nothing was there: apart from the store, whose bytes know no times."""
    seconds_by_name = {**_timings(directory), name: round(seconds, 1)}
    text = json.dumps({"workers": workers or default_workers(), "seconds": seconds_by_name}, indent=1)
    write_atomically(directory / "timings.json", (text + "\n").encode())
