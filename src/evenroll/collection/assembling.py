"""Rollouts from columns that were read: they are put together, checked and discounted."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError
from evenroll.files.untrusted_arrow import pyarrow

PER_STEP = ("observations", "actions", "rewards", "log_e", "log_b")
PER_EPISODE = ("returns", "ends", "terminated", "log_weights", "success")
WIDE = ("observations", "actions")


def with_gamma(data: Rollouts, gamma: float) -> Rollouts:
    """The same trajectories, with returns of another discount."""
    import dataclasses

    if not 0.0 <= gamma <= 1.0:
        raise DataError(f"gamma must lie in [0, 1], not {gamma}")
    return dataclasses.replace(data, gamma=gamma, returns=returns(data.column("rewards"), data.ends, gamma))


def returns(rewards: np.ndarray, ends: np.ndarray, gamma: float) -> np.ndarray:
    """The discounted return of each trajectory, [n]."""
    lengths = np.diff(ends, prepend=0)
    t = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
    owner = np.repeat(np.arange(len(ends)), lengths)
    return np.bincount(owner, gamma ** t.astype(np.float64) * rewards[: len(t)], minlength=len(ends))


def checked(data: Rollouts) -> Rollouts:
    """The data in its proper types, after a check of what every reader's result must satisfy."""
    data = data.sound()
    if not 0.0 <= data.gamma <= 1.0:
        raise DataError(f"gamma must lie in [0, 1], not {data.gamma}")
    if data.horizon is not None and (not isinstance(data.horizon, int) or data.horizon < 1):
        raise DataError(f"the horizon must be at least 1, not {data.horizon}")
    for name in (*PER_STEP, *PER_EPISODE):
        column = getattr(data, name)
        rows = data.steps if name in PER_STEP else len(data.ends)
        if column is not None and (len(column) != rows or column.ndim != (2 if name in WIDE else 1)):
            raise DataError(f"{name} has {len(column)} rows of {column.ndim - 1} dimensions, which does not fit {rows}")
    if data.steps < 0 or (data.lengths < 1).any() or (data.episodes and data.ends[-1] > data.steps):
        raise DataError("episodes do not follow each other")
    for name in ("observations", "actions", "rewards", "returns"):
        column = getattr(data, name)
        if column is not None and not np.isfinite(column).all():
            raise DataError(f"{name} holds a value that is not finite (row {int(np.argwhere(~np.isfinite(column))[0][0])})")
    return data


def unlisted(column: Any) -> np.ndarray:
    """A column of an Arrow table as an array [rows], or [rows, n] if it holds lists, which must all have one length."""
    pa = pyarrow()
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column.null_count and not pa.types.is_floating(column.type):
        raise ValueError("a number is missing")
    of_any_length = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not (of_any_length or pa.types.is_fixed_size_list(column.type)):
        return np.array(column.to_numpy(zero_copy_only=False))  # pyarrow's own memory cannot be written
    flat = unlisted(column.flatten())
    if of_any_length and len(np.unique(np.diff(column.offsets.to_numpy()))) > 1:
        raise ValueError("its lists differ in length")
    if len(column) == 0:
        return flat.reshape(0, column.type.list_size if pa.types.is_fixed_size_list(column.type) else 1)
    return flat.reshape(len(column), -1)


def assemble(
    gamma: float, horizon: int | None, episode: np.ndarray, observations: np.ndarray, actions: np.ndarray,
    rewards: np.ndarray, ended: np.ndarray | None, cut: np.ndarray | None, log_e: np.ndarray | None,
    log_b: np.ndarray | None, success: np.ndarray | None, starts: int = 0,
) -> Rollouts:  # fmt: skip
    """Rollouts from rows in order. An episode ends where the episode's number changes. Only the last may be unfinished."""
    steps = len(episode)
    changes = np.flatnonzero(np.diff(episode)) + 1
    if len(np.unique(episode)) != len(changes) + (1 if steps else 0):
        raise DataError("the rows of an episode must be next to each other, or have a column t that puts them in order")
    ends = np.append(changes, steps) if steps else np.zeros(0, np.int64)
    for flags in (ended, cut):
        early = None if flags is None else np.setdiff1d(np.flatnonzero(flags), ends - 1)
        if early is not None and len(early):
            raise DataError(
                f"episode {episode[early[0]]} goes on after its end (row {early[0]}): its rows are out of order, and a "
                "column t would put them in order"
            )
    over = None if ended is None or cut is None else (ended | cut)[ends - 1]
    if over is not None and len(over) and not over[-1]:
        ends, over = ends[:-1], over[:-1]
    if over is not None and not over.all():
        raise DataError(f"episode {episode[ends[np.argmin(over)] - 1]} has no end; only the last may be unfinished")
    terminated = np.zeros(len(ends), bool) if ended is None else ended[ends - 1]
    weights = None
    if log_e is not None and log_b is not None:
        weights = np.diff(np.append(0.0, np.cumsum(log_e - log_b))[np.append(0, ends)])
    successes = None if success is None else success[ends - 1]
    return checked(
        Rollouts(
            gamma, steps, returns(rewards, ends, gamma), ends, terminated, weights, observations, actions, rewards,
            log_e, log_b, horizon=horizon,
            success=successes if successes is not None and np.isfinite(successes).all() else None, starts=starts,
        )
    )  # fmt: skip
