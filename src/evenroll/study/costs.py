"""What a target of `evenroll reproduce` costs: estimated before it has run, measured afterwards.

Costs weigh the progress bar and give the times of `--list`. Results do not depend on them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evenroll.errors import DataError
from evenroll.executors.pool import default_workers
from evenroll.files.safe_files import read_bytes, read_json, write_atomically
from evenroll.study.blocks import Work, resolve
from evenroll.study.targets import PaperTarget

# All costs were measured by `evenroll reproduce` on two cores. COLLECT is in core-microseconds per environment step, and FIT
# in core-microseconds per step of all checkpoints together.
COLLECT = {
    "table": {"os": 0.4, "ros": 0.5, "bpg": 0.5, "auto": 0.9},
    "softmax": {"os": 0.25, "ros": 0.8, "bpg": 1.1, "auto": 0.8},
    "gaussian": {"os": 0.3, "ros": 0.8, "bpg": 1.25, "auto": 0.85},
}
FIT = {"table": 0.3, "softmax": 2.5, "gaussian": 4.3}
NETWORK_FIT = {"table": 0.5, "softmax": 0.55, "gaussian": 0.65}  # core-seconds per fit of fqe-net-small
LARGE_NETWORK = 16.0  # core-seconds per fit of fqe-net on gridworld, with 128 episodes
LINEAR_FIT = {"table": 0.1, "softmax": 4.0, "gaussian": 8.0}  # core-microseconds per step and checkpoint of fqe
PER_TRIAL = 0.5e-3  # core-seconds of every trial beside its steps and fits


@functools.cache
def cost(work: Work) -> float:
    """About how many core-seconds one trial takes."""
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
    """What a target takes if nothing of it is in the store yet."""

    target: PaperTarget
    env_steps: int
    seconds: float  # the estimated time, on as many workers as were asked for
    measured: float | None  # the seconds that it took here when nothing was in the store


def plans(chosen: Iterable[PaperTarget], workers: int, directory: Path | None) -> list[Plan]:
    """The plan of every target, with the times that were measured in this directory."""
    known = _timings(directory)
    result = []
    for target in chosen:
        wanted, steps = target.wanted(), _env_steps(target)
        seconds = sum(n * cost(w) for w, n in wanted.items()) / workers
        result.append(Plan(target, steps, seconds, known.get(_timing_key(target))))
    return result


def total_seconds(chosen: Iterable[PaperTarget]) -> float:
    """Core-seconds of all targets together if nothing is in the store yet. What they share is counted once."""
    most: dict[Work, int] = {}
    for target in chosen:
        for work, trials in target.wanted().items():
            most[work] = max(most.get(work, 0), trials)
    return sum(trials * cost(work) for work, trials in most.items())


def _timings(directory: Path | None) -> dict[str, float]:
    """The measured seconds by target. A file that cannot be read counts as none."""
    if directory is None:
        return {}
    try:
        seconds_by_target = read_json(read_bytes(directory / "timings.json", 1 << 20, DataError), "it", DataError)["seconds"]
        return {name: float(seconds) for name, seconds in seconds_by_target.items()}
    except (DataError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return {}


def _env_steps(target: PaperTarget) -> int:
    return sum(n * resolve(work).checkpoints[-1] for work, n in target.wanted().items())


def _timing_key(target: PaperTarget) -> str:
    """The target's name and size, because another roster or scale takes other times."""
    return f"{target.name}, {_env_steps(target):,} steps"


def note_timing(directory: Path, target: PaperTarget, seconds: float, workers: int | None) -> None:
    """Write down how long a target took when nothing was there. The store itself holds no times."""
    seconds_by_name = {**_timings(directory), _timing_key(target): round(seconds, 1)}
    text = json.dumps({"workers": workers or default_workers(), "seconds": seconds_by_name}, indent=1)
    write_atomically(directory / "timings.json", (text + "\n").encode())
