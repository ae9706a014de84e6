"""Which of two policies is better, and by how much: both meet the same starts, so that luck with those cancels.

The number of pairs is given (`episodes`), or they are collected until the question is decided (`until="decided"`).
`pairs.py` has the estimate, `deciding.py` the looks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenroll.adapters.normalization import Normalization
from evenroll.collection.rollouts import Rollouts
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import Interrupted, SpecError
from evenroll.estimators import get_estimator
from evenroll.evaluation.deciding import UNDECIDED, Decided, Looking, Question
from evenroll.evaluation.difference_picture import paired
from evenroll.evaluation.difference_result import Difference
from evenroll.evaluation.evaluate import DEFAULT_EPISODES, DEFAULT_ESTIMATOR, Budget, Progress, evaluate_source
from evenroll.evaluation.interruption import result_so_far, seen, with_data
from evenroll.evaluation.looking import Look, report
from evenroll.evaluation.pairs import Compared, compared, first_episodes, of_quantity, side_of, sources_for
from evenroll.evaluation.result import Evaluation
from evenroll.evaluation.sources import Source
from evenroll.intervals.independent import Interval, NoInterval
from evenroll.intervals.sequential import fixed_size
from evenroll.samplers.table import SamplerLike
from evenroll.text.calls import written_call
from evenroll.text.specs import whole_number

FEWEST = 4  # episodes of each policy that a difference needs


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
    workers: int | None = None,
    executor: str | None = None,
    spool: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    warned: tuple[str, ...] = (),
    normalization: Normalization | None = None,
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
    workers, executor, spool  as `evaluate` takes them (docs/clusters.md). Both policies share the workers.
    warned    what is known beforehand and belongs into the results' warnings
    normalization  with workers: what their environments do to observations (a file of `VecNormalize`, loaded)
    """
    call = written_call("evenroll.difference", difference, locals())
    if until not in (None, "decided"):
        raise SpecError(f"until must be 'decided' or be left out, not {until!r}")
    if until is not None and episodes is not None:
        raise SpecError("until='decided' takes most=…, the largest number of episodes, not episodes=…")
    if until is None and margin != 0.0:
        raise SpecError("a margin is for until='decided'; otherwise the interval shows how large the difference is")
    question = None if until is None else Question(margin)
    found = ask(
        env, first, second, question, sampler=sampler, pairs=episodes if until is None else most, quantity=quantity,
        gamma=gamma, seed=seed, confidence=confidence, horizon=horizon, deterministic=deterministic, resets=resets,
        initial=initial, progress=progress, warned=warned, workers=workers, executor=executor, spool=spool,
        normalization=normalization,
    )  # fmt: skip
    return replace(found, _call=call)


def ask(
    env: Any, first: Any, second: Any, question: Question | None, *, sampler: SamplerLike, pairs: int | None, quantity: str,
    gamma: float | None, seed: int, confidence: float, horizon: int | None, deterministic: bool, resets: int | None,
    initial: tuple[Rollouts | None, Rollouts | None], progress: Callable[[Progress], None] | None, **collecting: Any,
) -> Difference:  # fmt: skip
    """Compare two policies: with a question, until it is decided or there are so many pairs; without, with so many pairs.

    collecting  what else `sources_for` takes
    """
    pairs = DEFAULT_EPISODES if pairs is None else pairs
    if whole_number("episodes" if question is None else "most", pairs, 1) < FEWEST:
        raise SpecError(f"a difference needs at least {FEWEST} episodes, not {pairs}")
    there = [0 if data is None else data.episodes for data in initial]
    if max(there) > pairs:
        raise SpecError(f"the data has {max(there)} episodes already, more than the {pairs} that are to be compared")
    look = Look(get_estimator(DEFAULT_ESTIMATOR))
    settings: dict[str, Any] = {"gamma": gamma, "seed": seed, "horizon": horizon, "deterministic": deterministic}
    sources = sources_for(env, (first, second), sampler, initial, resets=resets, **settings, **collecting)
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
