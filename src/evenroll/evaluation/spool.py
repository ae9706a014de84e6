"""The spool of a run: a directory in which every block of episodes is written as soon as it is finished.

    DIRECTORY/run.json                       what determines the run; a spool of another run is refused
    DIRECTORY/block-00000128-4.safetensors   a block: its first episode and how many it has
    DIRECTORY/resets-00000256.json           how many further resets were made after so many episodes

A run that was killed is started again with the same spool, and collects nothing that is there. A file is written as a whole
or not at all. It holds no times and no dates, so that equal runs have equal files, whoever was killed meanwhile.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.collection.merging import State
from evenroll.errors import DataError, EvenrollError
from evenroll.evaluation.episode_blocks import COLUMNS, Block, Collected
from evenroll.evaluation.recipes import key_of
from evenroll.files.safe_files import read_bytes, read_json, read_tensors, tensor_bytes, write_atomically

KEY = "evenroll.block"
RUN = "run.json"
LARGEST = 4 << 30  # the most bytes of a block
SMALL = 1 << 20  # the most bytes of the other files
ADDED = ("vectors", "memory", "clock", "tally")


class Spool:
    """The directory of one run, which nobody else uses at the same time.

    damaged  the files that could not be used, whose blocks are collected again
    """

    def __init__(self, directory: str | Path, identity: dict[str, Any]) -> None:
        self.directory, self.key = Path(directory), key_of(identity)
        self.damaged: list[str] = []
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.directory / "lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise EvenrollError(f"cannot write to the spool {self.directory}: {error.strerror or error}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._claim(identity)
        except BlockingIOError:
            os.close(self._lock)
            raise EvenrollError(f"another process is collecting into the spool {self.directory}") from None
        except BaseException:
            os.close(self._lock)
            raise

    def _claim(self, identity: dict[str, Any]) -> None:
        """Write what determines the run, or compare it with what is there."""
        path = self.directory / RUN
        if path.exists():
            there = read_json(read_bytes(path, SMALL, DataError), RUN, DataError)
            other = [name for name in identity if there.get(name) != identity[name]]
            if other or set(there) != set(identity):
                changed = f"with another {', '.join(other)}" if other else "by another version"
                raise EvenrollError(
                    f"the spool {self.directory} belongs to another run, {changed}: give a directory of its own to every run"
                )
            return
        if any(self.directory.glob("block-*")):
            raise EvenrollError(f"the spool {self.directory} has blocks of an unknown run: its {RUN} is missing")
        write_atomically(path, (json.dumps(identity, indent=1, sort_keys=True) + "\n").encode())

    def _path(self, block: Block) -> Path:
        return self.directory / f"block-{block.first:08}-{block.count}.safetensors"

    def _spec(self, block: Block, state: State | None) -> dict[str, Any]:
        """What a block is a function of."""
        return {"run": self.key, "first": block.first, "count": block.count, "alone": block.alone, "state": _digest(state)}

    def load(self, block: Block, state: State | None) -> Collected | None:
        """The block, if it is there and whole, and was collected from this state. A file that cannot be used is named."""
        path = self._path(block)
        if not path.exists():
            return None
        try:
            spec, arrays = read_tensors(path, KEY, LARGEST, DataError)
            if spec != self._spec(block, state):
                raise DataError("it holds another block")
            columns = {name: arrays[f"data.{name}"] for name in COLUMNS if f"data.{name}" in arrays}
            gained = {} if state is None else {n: arrays.get(f"added.{n}", np.zeros(0)) for n in ADDED}
            return Collected(columns, gained)
        except DataError:
            self.damaged.append(path.name)
            return None

    def save(self, block: Block, state: State | None, found: Collected) -> None:
        arrays = {f"data.{name}": x for name, x in found.columns.items()}
        arrays |= {f"added.{name}": x for name, x in found.added.items()}
        write_atomically(self._path(block), tensor_bytes(KEY, self._spec(block, state), arrays))

    # How many further resets are made depends on how long one takes. So it is kept for the run that goes on.

    def resets(self, episodes: int) -> tuple[int, str | None] | None:
        """How many further resets were made after so many episodes, and why not more; None if that is not known."""
        path = self.directory / f"resets-{episodes:08}.json"
        try:
            told = read_json(read_bytes(path, SMALL, DataError), path.name, DataError) if path.exists() else {}
        except DataError:
            return None
        count, why = told.get("count"), told.get("why")
        good = type(count) is int and count >= 0 and (why is None or isinstance(why, str))
        return (count, why) if good and type(count) is int else None

    def note_resets(self, episodes: int, count: int, why: str | None) -> None:
        text = json.dumps({"count": count, "why": why})
        write_atomically(self.directory / f"resets-{episodes:08}.json", (text + "\n").encode())

    def close(self) -> None:
        os.close(self._lock)


def _digest(state: State | None) -> str:
    digest = hashlib.sha256()
    for name in sorted(state or {}):
        digest.update(np.ascontiguousarray((state or {})[name]).tobytes())
    return digest.hexdigest()
