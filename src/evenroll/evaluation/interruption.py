"""What is left when collecting is interrupted or something fails: the finished trajectories, and what they say."""

from __future__ import annotations

import dataclasses
from contextlib import suppress

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import CollectionFault, EvenrollError, Interrupted
from evenroll.evaluation.looking import Look, Seen, report
from evenroll.evaluation.result import Evaluation
from evenroll.evaluation.sources import Source

NOTE = "The trajectories that had finished are in the error's `rollouts`."


def seen(source: Source, data: Rollouts | None = None) -> Seen:
    """What a report says of a source. `data` are its rollouts, if they are at hand already."""
    data = source.rollouts() if data is None else data
    about = (source.described, source.name, source.seed, source.remark, source.warnings, source.certain)
    return Seen(
        data, source.policy, source.sampler, source.divergence, *about, source.open_episodes, source.resets.why, source.limit
    )


def result_so_far(source: Source, data: Rollouts, look: Look, confidence: float) -> Evaluation | None:
    """The evaluation of the finished trajectories, marked as interrupted; None if they are too few."""
    try:
        return dataclasses.replace(report(seen(source, data), look, confidence), interrupted=True)
    except EvenrollError:
        return None


def with_data(error: Exception, *sources: Source) -> Exception:
    """The error, to which the finished trajectories are attached as `rollouts`; of two sources a pair.

    It may come from anywhere after collecting: an estimator that has no estimate, memory that does not suffice, a progress
    function of the user's. Whatever it is, collecting is what has taken the time.
    """
    if isinstance(error, CollectionFault) and len(sources) == 1:
        return error  # it has them
    with suppress(Exception):
        data = [source.rollouts(unfinished=False) for source in sources]
        error.rollouts = data[0] if len(data) == 1 else tuple(data)  # type: ignore[attr-defined]
        if NOTE not in getattr(error, "__notes__", ()):
            error.add_note(NOTE)
    return error


def interrupted(source: Source, look: Look, confidence: float) -> Interrupted:
    """The error to raise in place of a KeyboardInterrupt."""
    data = source.rollouts(unfinished=False)
    message = f"interrupted after {data.episodes:,} finished episodes (error.rollouts, error.result)"
    return Interrupted(message, rollouts=data, find=lambda: result_so_far(source, data, look, confidence))
