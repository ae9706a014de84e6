"""Rollouts from the columns of a table, one row for each step: the rows are put in order, and the columns are checked."""

from __future__ import annotations

import array
import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from evenroll.collection.assembling import assemble
from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError

COLUMNS = ("episode", "t", "observation", "action", "reward", "log_e", "log_b", "terminated", "truncated", "success")
NEEDED = ("episode", "observation", "action", "reward")
MOST_STARTS = 2**31  # episodes with larger numbers are not counted from 0


def from_columns(
    given: dict[str, np.ndarray], gamma: float = 1.0, horizon: int | None = None, starts: int = 0
) -> Rollouts:  # fmt: skip
    """Rollouts from columns [rows] or [rows, n]. Where there is a column t, the rows may come in any order.

    starts  how many starts are known to have been used; the episodes' numbers may tell of more
    """
    columns = joined(given)
    missing = set(NEEDED) - set(columns)
    if missing:
        raise DataError(f"column {min(missing)} is missing; needed are episode, observation, action and reward")
    rows = len(columns["episode"])

    def one(name: str, kind: Any = np.float64) -> Any:
        if name not in columns:
            return None
        column = columns[name]
        if kind is not np.float64 and not np.isfinite(column).all():
            raise DataError(f"column {name} lacks a number")
        if kind is np.int64 and not (column == np.floor(column)).all():
            raise DataError(f"column {name} holds a number that is not whole")
        return column.astype(kind).reshape(rows)

    def wide(name: str) -> np.ndarray:
        return columns[name].reshape(rows, -1 if rows else columns[name].shape[-1] if columns[name].ndim == 2 else 1)

    episode, t = one("episode", np.int64), one("t", np.int64)
    order = np.arange(rows) if t is None else in_order(episode, t)
    parts = (
        episode, wide("observation"), wide("action").astype(np.float64), one("reward"), one("terminated", bool),
        one("truncated", bool), one("log_e"), one("log_b"), one("success"),
    )  # fmt: skip
    ordered: list[Any] = [None if part is None else part if t is None else part[order] for part in parts]
    numbers, seen, taken, rewards, ended, cut, log_e, log_b, success = ordered
    used = max(starts, _starts(episode))
    return assemble(gamma, horizon, numbers, seen, taken, rewards, ended, cut, log_e, log_b, success, used)


def _starts(episode: np.ndarray) -> int:
    """How many starts were used, if the episodes are numbered from 0. Some of them may have been taken out since."""
    if len(episode) == 0 or episode.min() < 0 or episode.max() >= MOST_STARTS:
        return 0
    return int(episode.max()) + 1


def in_order(episode: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The order of the rows by episode and t. Raises if a step of an episode is missing or there twice.

    Rows that are in order already, whatever their episodes' numbers, stay as they are.
    """
    together = len(np.unique(episode)) == np.count_nonzero(np.diff(episode)) + (1 if len(episode) else 0)
    same = np.diff(episode) == 0
    order = np.arange(len(t)) if together and (np.diff(t)[same] > 0).all() else np.lexsort((t, episode))
    number, step = episode[order], t[order]
    first = np.append(True, np.diff(number) != 0)[: len(t)]
    if len(t) and (step[first] != step[0]).any():
        raise DataError(f"episode {number[first][step[first] != step[0]][0]} does not begin with t = {step[0]} as the first")
    gaps = np.flatnonzero((np.diff(step) != 1) & ~first[1:])
    if len(gaps):
        at = int(gaps[0])
        what = "twice" if step[at + 1] == step[at] else f"and then t = {step[at + 1]}"
        raise DataError(f"episode {number[at]} has t = {step[at]} {what}: a step is missing or doubled")
    if len(t) and step[0] not in (0, 1):
        raise DataError(f"the episodes begin with t = {step[0]}: their first steps are missing")
    return order


def joined(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns, with observation.0, observation.1, … (and likewise of actions) put side by side."""
    result = {name: column for name, column in columns.items() if "." not in name}
    for whole in ("observation", "action"):
        parts = [name for name in columns if name.startswith(f"{whole}.")]
        if not parts:
            continue
        wanted = [f"{whole}.{i}" for i in range(len(parts))]
        if whole in result or set(wanted) != set(parts):
            raise DataError(f"the columns of the {whole} are not {whole}.0, {whole}.1 and so on, each once")
        result[whole] = np.stack([np.asarray(columns[name], np.float64) for name in wanted], axis=1)
    return result


# ---- CSV -----------------------------------------------------------------------------------------------------------

CSV_LARGEST = 1 << 30  # the most bytes of a file
CSV_NUMBERS = 1 << 27  # the most numbers: 1 GiB of memory
LONGEST_LINE = 4 << 20  # the most characters of a line: about 200,000 numbers
WORDS = {"true": 1.0, "false": 0.0, "": np.nan}


def read_csv(raw: bytes) -> dict[str, np.ndarray]:
    """The columns of a CSV file with a line of names at its top. Truth values are true and false, or 1 and 0."""
    if raw.count(b",") + raw.count(b"\n") > CSV_NUMBERS:  # counted before any is read: a number may be two bytes in the file
        raise DataError(f"it has more than {CSV_NUMBERS:,} numbers; write it as .parquet")
    try:
        lines = csv.reader(_lines(io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline="")))
        names = [name.strip() for name in next(lines, [])]
        if len(set(names)) < len(names) or not set(NEEDED) & {name.partition(".")[0] for name in names}:
            raise DataError("its first line must name its columns: episode, observation, action, reward …")
        numbers = array.array("d")
        for line in lines:
            if len(line) != len(names):
                if not line:
                    continue
                raise DataError(f"line {lines.line_num} has {len(line)} entries, not {len(names)}")
            numbers.extend(_numbers(line, lines.line_num))
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"not a CSV file ({error})") from None
    table = np.frombuffer(numbers, np.float64).reshape(-1, len(names))
    kept = {name: table[:, i] for i, name in enumerate(names)}
    return {name: column for name, column in kept.items() if name in COLUMNS or name.partition(".")[0] in NEEDED}


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """The lines of a text. One without end would be in memory as a whole, with a string for each of its numbers."""
    while line := text.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise DataError(f"a line of it is longer than {LONGEST_LINE >> 20} MiB")
        yield line


def _numbers(line: Iterable[str], number: int) -> list[float]:
    try:
        return [WORDS[text.strip().lower()] if text.strip().lower() in WORDS else float(text) for text in line]
    except ValueError as error:
        raise DataError(f"line {number}: {error}") from None
