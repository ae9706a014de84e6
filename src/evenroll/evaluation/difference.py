"""Which of two policies is better, and by how much: both meet the same starts, so that luck with those cancels.

The number of pairs is given (`episodes`), or they are collected until the question is decided (`until="decided"`).
`pairs.py` has the estimate, `deciding.py` the looks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenroll.collection.rollouts import Rollouts
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import DataError, Interrupted, SpecError
from evenroll.estimators import get_estimator
from evenroll.evaluation.deciding import ALIKE, FIRST_BETTER, SECOND_BETTER, UNDECIDED, Decided, Looking, Question
from evenroll.evaluation.difference_picture import draw_pairs, paired
from evenroll.evaluation.evaluate import DEFAULT_EPISODES, DEFAULT_ESTIMATOR, Budget, Progress, evaluate_source
from evenroll.evaluation.interruption import result_so_far, seen, with_data
from evenroll.evaluation.looking import Look, report
from evenroll.evaluation.pairs import Compared, compared, first_episodes, of_quantity, side_of, sources_for
from evenroll.evaluation.presenting import Presented, of_plain, page_piece
from evenroll.evaluation.result import Evaluation
from evenroll.evaluation.sources import Source
from evenroll.files.figures import save_figure
from evenroll.intervals.independent import Interval, NoInterval
from evenroll.intervals.sequential import fixed_size
from evenroll.samplers.table import SamplerLike
from evenroll.text.numbers import precise, with_interval
from evenroll.text.specs import whole_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST = 4  # episodes of each policy that a difference needs


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

    @classmethod
    def from_json(cls, told: Mapping[str, Any] | str) -> Difference:
        """The result of which `to_json` has told, without its data. What this version does not know is left out."""
        return of_plain(cls, told, first=Evaluation.from_json, second=Evaluation.from_json)

    def plot(self, path: str | Path | None = None) -> Figure:
        """The difference of every pair of episodes, their running mean, and the interval of what was found.

        If there is a `path`, the picture is saved there, in the format that its name says.
        """
        first, second = self.rollouts
        if first is None or second is None:
            raise DataError("a result that was read from JSON or unpickled has no data to draw: compare again")
        interval = None if self.low is None or self.high is None else (self.low, self.high)
        figure = draw_pairs(paired(first.returns, second.returns), self.value, interval, self.confidence, str(self))
        if path is not None:
            save_figure(figure, path)
        return figure

    def _repr_html_(self) -> str:
        return page_piece(str(self), self.in_words(), None)

    def __str__(self) -> str:
        number = with_interval(self.value, self.low, self.high, "+", f"{100 * self.confidence:g} %")
        return f"{number}{' (no interval)' if self.low is None else ''}, {self.first.episodes} episodes each" + (
            ", interrupted" if self.interrupted else ""
        )

    def in_words(self) -> str:
        both = dict.fromkeys((*self.first.warnings, *self.second.warnings))
        return self._found() + "".join(f" Warning: {text}." for text in both)

    def _values(self, half: float) -> str:
        if self.quantity == "success":
            shares = [one.quantities["success"].value for one in (self.first, self.second)]
            return f"success in {100 * shares[0]:.3g} % against {100 * shares[1]:.3g} %"
        return f"{precise(self.first.value, half)} against {precise(self.second.value, half)}"

    def _found(self) -> str:
        half = self.half_width or 0.0
        values = self._values(half)
        if self.low is None or self.high is None:
            return f"Which is better cannot be told: {values}; no interval: {self.why}."
        note = "" if self.note is None else f" Note: {self.note}."
        low, high = precise(self.low, half, sign="+"), precise(self.high, half, sign="+")
        return f"{self._verdict()}: {values}, a difference of {low} … {high}.{self._took()}{note}"

    def _verdict(self) -> str:
        assert self.low is not None
        assert self.high is not None
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


def difference(
    env: Any,
    first: Any,
    second: Any,
    *,
    sampler: SamplerLike = "auto",
    episodes: int | None = None,
    until: str | None = None,
    most: int = 200,
    margin: float = 0.0,
    quantity: str = "return",
    gamma: float | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    horizon: int | None = None,
    deterministic: bool = False,
    resets: int | None = None,
    initial: tuple[Rollouts | None, Rollouts | None] = (None, None),
    progress: Callable[[Progress], None] | None = None,
    warned: tuple[str, ...] = (),
) -> Difference:
    """Evaluate two policies on the same starts of one environment or domain, and compare them.

    A vector environment is reset as a whole for every round of episodes, one of each lane, because only then are its
    starts known. Lanes that have ended wait for the longest episode of their round.

    episodes  how many episodes of each policy (100 by default)
    until     "decided" collects pairs of episodes only until it is clear which policy is better, at most `most` of each.
              It looks after every pair at first, and the verdict is wrong with probability 1 − confidence at most, whenever
              it comes (intervals/sequential.py). So does the interval hold.
    margin    with until="decided": how large a difference counts. It can then also come out that both are alike.
    quantity  what is compared: return, or success (a rate), where the environment tells of it
    gamma     the discount. A domain has its own; elsewhere it is 1 unless given.
    initial   what each policy has collected before, with this seed and from the first start on; `episodes` counts it.
              So an interrupted difference goes on: Ctrl-C raises `evenroll.Interrupted` with both in `rollouts`.
    warned    what is known beforehand and belongs into the results' warnings
    """
    if until not in (None, "decided"):
        raise SpecError(f"until must be 'decided' or be left out, not {until!r}")
    if until is not None and episodes is not None:
        raise SpecError("until='decided' takes most=…, the largest number of episodes, not episodes=…")
    if until is None and margin != 0.0:
        raise SpecError("a margin is for until='decided'; otherwise the interval shows how large the difference is")
    question = None if until is None else Question(margin)
    return ask(
        env, first, second, question, sampler=sampler, pairs=episodes if until is None else most, quantity=quantity,
        gamma=gamma, seed=seed, confidence=confidence, horizon=horizon, deterministic=deterministic, resets=resets,
        initial=initial, progress=progress, warned=warned,
    )  # fmt: skip


def ask(
    env: Any, first: Any, second: Any, question: Question | None, *, sampler: SamplerLike, pairs: int | None, quantity: str,
    gamma: float | None, seed: int, confidence: float, horizon: int | None, deterministic: bool, resets: int | None,
    initial: tuple[Rollouts | None, Rollouts | None], progress: Callable[[Progress], None] | None, warned: tuple[str, ...],
) -> Difference:  # fmt: skip
    """Compare two policies: with a question, until it is decided or there are so many pairs; without, with so many pairs."""
    pairs = DEFAULT_EPISODES if pairs is None else pairs
    if whole_number("episodes" if question is None else "most", pairs, 1) < FEWEST:
        raise SpecError(f"a difference needs at least {FEWEST} episodes, not {pairs}")
    there = [0 if data is None else data.episodes for data in initial]
    if max(there) > pairs:
        raise SpecError(f"the data has {max(there)} episodes already, more than the {pairs} that are to be compared")
    look = Look(get_estimator(DEFAULT_ESTIMATOR))
    settings: dict[str, Any] = {"gamma": gamma, "seed": seed, "horizon": horizon, "deterministic": deterministic}
    sources = sources_for(env, (first, second), sampler, initial, resets=resets, warned=warned, **settings)
    looking = None if question is None else Looking(sources, question, pairs, confidence, quantity)
    try:
        if looking is None:
            results = []
            for source, known in zip(sources, there, strict=True):
                results.append(evaluate_source(source, look, Budget(pairs - known, None, None), confidence, progress))
            return _with_all(sources, results, confidence, quantity)
        decided = looking.run(there, _telling(sources, pairs, progress))
        return _as_decided(looking, decided, [source.rollouts() for source in sources], look)
    except KeyboardInterrupt:
        raise _interrupted(sources, look, confidence, quantity, looking) from None
    except Exception as error:
        with_data(error, *sources)
        raise
    finally:
        for source in sources:
            source.close()


def _telling(
    sources: Sequence[Source], most: int, progress: Callable[[Progress], None] | None
) -> Callable[[int, Compared], None]:
    """Tells how far collecting has come after every look."""
    started = time.perf_counter()

    def tell(pairs: int, found: Compared) -> None:
        if progress is not None:
            progress(Progress(pairs, most, sum(source.steps for source in sources), time.perf_counter() - started, None))

    return tell


def _with_all(sources: Sequence[Source], results: Sequence[Evaluation], confidence: float, quantity: str) -> Difference:
    """The difference of all pairs, whose number did not depend on them."""
    sides = [side_of(source, quantity) for source in sources]
    with single_threaded_blas():
        found = compared(sides[0], sides[1], confidence)
    return _made(found, results, confidence, quantity)


def _made(found: Compared, results: Sequence[Evaluation], confidence: float, quantity: str) -> Difference:
    first, second = results
    alone = (
        None if first.half_width is None or second.half_width is None else math.hypot(first.half_width, second.half_width)
    )
    alone = alone if quantity == "return" else None
    interval = found.interval
    if first.runs_away or second.runs_away:  # neither value is to be trusted, and so their difference is not
        which = "the first policy" if first.runs_away else "the second policy"
        interval = NoInterval(f"{which}: {(first if first.runs_away else second).why}")
    if isinstance(interval, NoInterval):
        return Difference(found.value, None, None, confidence, interval.why, None, alone, first, second, quantity=quantity)
    return Difference(
        found.value, interval.low, interval.high, confidence, None, interval.note, alone, first, second, quantity=quantity
    )


def _as_decided(looking: Looking, decided: Decided, data: Sequence[Rollouts], look: Look) -> Difference:
    """The result of a run that ended when something was decided. All of its intervals have the level of the last look."""
    level, confidence = 1.0 - decided.level, looking.confidence
    results = []
    for source, part in zip(looking.sources, data, strict=True):
        about = seen(source, part)
        value, interval = about.look(look, level)
        known = value, replace(interval, confidence=confidence) if isinstance(interval, Interval) else interval
        results.append(report(about, look, confidence, known, level))
    made = _made(decided.found, results, confidence, looking.quantity)
    return replace(
        made, verdict=UNDECIDED if made.low is None else decided.verdict, margin=looking.question.margin, most=looking.most,
        undecided=decided.why if made.low is not None or decided.why is not None else made.why,
        fixed_size=_fixed_size(looking, decided, data),
    )  # fmt: skip


def _fixed_size(looking: Looking, decided: Decided, data: Sequence[Rollouts]) -> int | None:
    values = [of_quantity(part, looking.quantity).returns for part in data]
    gaps = paired(values[0], values[1])
    low, high = looking.question.bounds
    beyond = max(decided.found.value - high, low - decided.found.value)
    return fixed_size(float(beyond), float(gaps.std(ddof=1)), looking.confidence)


def _interrupted(
    sources: Sequence[Source], look: Look, confidence: float, quantity: str, looking: Looking | None
) -> Interrupted:
    """The error to raise in place of a KeyboardInterrupt. It compares the starts that both policies have met."""
    whole = [source.rollouts(unfinished=False) for source in sources]
    shared = min(data.episodes for data in whole)
    message = f"interrupted after {shared:,} episodes that both policies have finished (error.rollouts, error.result)"
    level = confidence if looking is None else 1.0 - looking.level_at(shared)

    def find() -> Difference | Evaluation | None:
        if shared >= FEWEST:
            data = [first_episodes(data, shared) for data in whole]
            results = [result_so_far(source, part, look, level) for source, part in zip(sources, data, strict=True)]
            if results[0] is not None and results[1] is not None:
                with single_threaded_blas():
                    sides = [side_of(source, quantity, shared) for source in sources]
                    made = _made(compared(sides[0], sides[1], level), [results[0], results[1]], confidence, quantity)
                if looking is None:
                    return replace(made, interrupted=True)
                why, margin = "it was interrupted", looking.question.margin
                told = {"verdict": UNDECIDED, "most": looking.most, "margin": margin, "undecided": why}
                return replace(made, interrupted=True, **told)  # type: ignore[arg-type]
        return result_so_far(sources[0], whole[0], look, confidence)

    return Interrupted(message, rollouts=tuple(whole), find=find)
