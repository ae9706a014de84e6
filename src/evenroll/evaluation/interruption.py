"""What is left when collecting is interrupted: the finished trajectories, and what they say."""

from __future__ import annotations

import dataclasses

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import EvenrollError, Interrupted
from evenroll.evaluation.looking import Look, Seen, report
from evenroll.evaluation.result import Evaluation
from evenroll.evaluation.sources import Source


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


def interrupted(source: Source, look: Look, confidence: float) -> Interrupted:
    """The error to raise in place of a KeyboardInterrupt."""
    data = source.rollouts(unfinished=False)
    message = f"interrupted after {data.episodes:,} finished episodes (error.rollouts, error.result)"
    return Interrupted(message, rollouts=data, find=lambda: result_so_far(source, data, look, confidence))
