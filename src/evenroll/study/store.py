"""Results on disk. Each block of trials is one Parquet file, written once, whose name is a hash of what determines it.

    DIRECTORY/ab/abcdef….parquet   a block, under the hash of its identity
    DIRECTORY/aside/…              files that could not be used

A file has one row per trial and checkpoint, sorted by trial and then by steps:

    trial    int32    which trial
    steps    int64    new environment steps so far
    runaway  bool     whether the behaviour left the policy
    …        double   a column for each measure; null where there is no value

Estimates (mc, ois, wris …) are relative to the true value; kl and grad_norm are the two sampling errors. The file's
metadata holds `evenroll` (the identity, JSON) and `evenroll.sha256` (of identity and columns). It holds no times and no
dates, so that equal runs give equal bytes.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import itertools
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.errors import DataError, EvenrollError
from evenroll.files.safe_files import read_json, write_atomically
from evenroll.files.untrusted_arrow import read_parquet
from evenroll.study.blocks import Block, BlockData, identity_key

LARGEST = 64 << 20  # bytes of a file that is read; a block has some kilobytes
UNPACKED = 256 << 20  # bytes of its columns, for the same reason
IDENTITY = {"domain": str, "method": str, "policy": str, "seed": int, "first": int, "trials": int, "measures": list,
            "checkpoints": list}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A block as the store lists it."""

    path: Path
    identity: dict[str, Any]
    data: BlockData


@dataclass(frozen=True)
class Claim:
    """The right to compute a block: a lock that the operating system takes away when its owner dies."""

    path: Path
    handle: int

    def release(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self.handle)


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError as error:  # nobody may look into the folder above it
        raise EvenrollError(f"cannot look at {path}: {error.strerror or error}") from None


class Store:
    """A directory of blocks that several processes may share. `say` is told of files that were set aside."""

    def __init__(self, directory: str | Path, say: Callable[[str], None] = lambda message: None) -> None:
        self.directory, self.say = Path(directory), say
        arrow()

    def path(self, key: str) -> Path:
        return self.directory / key[:2] / f"{key}.parquet"

    def load(self, block: Block) -> BlockData | None:
        """The block, if it is there and whole. A damaged file is set aside, and then there is no block."""
        path = self.path(block.key)
        if _is_link(path.parent):
            return None  # nothing is read through a link, and `save` will say so
        try:
            identity, data = _read(path)
            if identity != json.loads(json.dumps(block.identity())):
                raise DataError("it holds another block")
            return data
        except FileNotFoundError:
            return None
        except DataError as error:
            self._set_aside(path, str(error))
            return None

    def save(self, block: Block, data: BlockData) -> None:
        path = self.path(block.key)
        self._make(path.parent)
        write_atomically(path, _bytes(block.identity(), block.first, data))
        for half in path.parent.glob(f".{path.name}.*"):  # left by a process that was killed; the claim is ours
            half.unlink(missing_ok=True)

    def entries(self) -> Iterator[Entry]:
        """All good blocks, in the order of their names. Bad files are set aside."""
        for path in sorted(self.directory.glob("??/*.parquet")):
            if _is_link(path.parent):
                self.say(f"{path.parent.name} is a link, which may lead out of the store; it is not followed")
                continue
            try:
                identity, data = _read(path)
                if identity_key(identity) != path.stem:
                    raise DataError("its name is not that of its contents")
                yield Entry(path, identity, data)
            except FileNotFoundError:  # another process has just set it aside
                continue
            except DataError as error:
                self._set_aside(path, str(error))

    def claim(self, block: Block) -> Claim | None:
        """The right to compute the block, or None while another process has it. The claim of a dead process ends with it."""
        path = self.directory / "claims" / block.key
        self._make(path.parent)
        try:
            handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise EvenrollError(f"cannot write {path}: {error.strerror or error}") from None
        claim = Claim(path, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            current = path.stat().st_ino == os.fstat(handle).st_ino  # false if its last owner deleted it meanwhile
        except (BlockingIOError, FileNotFoundError):
            current = False
        if not current:
            os.close(handle)
            return None
        return claim

    def _make(self, directory: Path) -> None:
        """Make a directory of the store. A link in its place is refused: what is written there would land elsewhere."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            directory.mkdir(exist_ok=True)
        except OSError as error:
            raise EvenrollError(f"cannot make {directory}: {error.strerror or error}") from None
        if _is_link(directory):
            raise EvenrollError(f"{directory} is a link, which may lead out of the store: remove it")

    def _set_aside(self, path: Path, why: str) -> None:
        aside = self.directory / "aside"
        try:
            self._make(aside)
            _move_aside(path, aside)
            self.say(f"{path.name}: {why}; set aside in {aside.name}/ and computed again when needed")
        except FileNotFoundError:  # another process was faster
            pass
        except OSError as error:
            self.say(f"{path.name}: {why}; not used, and it cannot be set aside: {error.strerror or error}")


def _move_aside(path: Path, aside: Path) -> None:
    """Move a file to `aside` under the first number that is free: what was set aside before is never overwritten."""
    for number in itertools.count(sum(1 for _ in aside.iterdir())):
        place = aside / f"{number}-{path.name}"
        try:
            os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))  # of two processes only one gets it
        except FileExistsError:
            continue
        try:
            os.replace(path, place)
        except OSError:
            place.unlink(missing_ok=True)
            raise
        return


# ---- the file ------------------------------------------------------------------------------------------------


def arrow() -> Any:
    """pyarrow.parquet, which is installed with the extra `data`."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise EvenrollError("keeping results needs pyarrow: pip install 'evenroll[data]'") from None
    return pyarrow.parquet


def _columns(first: int, data: BlockData) -> dict[str, np.ndarray]:
    trials, points = len(data.values), len(data.checkpoints)
    return {
        "trial": np.repeat(np.arange(first, first + trials, dtype="<i4"), points),
        "steps": np.tile(np.array(data.checkpoints, dtype="<i8"), trials),
        "runaway": np.repeat(np.asarray(data.runaway, dtype=bool), points),
        **{name: data.values[:, i].ravel().astype("<f8") for i, name in enumerate(data.columns)},
    }


def _checksum(identity: str, columns: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(identity.encode())
    for name, column in columns.items():
        digest.update(name.encode() + column.tobytes())
    return digest.hexdigest()


def _bytes(identity: dict[str, Any], first: int, data: BlockData) -> bytes:
    import pyarrow as pa

    text = json.dumps(identity, sort_keys=True, allow_nan=False)
    columns = _columns(first, data)
    table = pa.table({name: pa.array(column, from_pandas=True) for name, column in columns.items()})
    table = table.replace_schema_metadata({"evenroll": text, "evenroll.sha256": _checksum(text, columns)})
    out = io.BytesIO()
    arrow().write_table(table, out, compression="zstd", use_dictionary=False, write_statistics=False)
    return out.getvalue()


def _read(path: Path) -> tuple[dict[str, Any], BlockData]:
    """(identity, data) of a file, or DataError if it is torn, foreign or changed."""
    try:
        about = path.lstat()
        raw = path.read_bytes() if stat.S_ISREG(about.st_mode) and about.st_size <= LARGEST else None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise EvenrollError(f"cannot read {path}: {error.strerror or error}") from None
    if raw is None:
        raise DataError("it is not a regular file, or far too large for a block")
    import pyarrow as pa

    try:
        table = read_parquet(raw, UNPACKED)
        written_by = arrow().ParquetFile(io.BytesIO(raw)).metadata.created_by
        metadata = table.schema.metadata
        text = metadata[b"evenroll"].decode()
        identity = read_json(text, "its identity", DataError)
        if not all(isinstance(identity[name], kind) and identity[name] is not True for name, kind in IDENTITY.items()):
            raise TypeError
        if not all(isinstance(name, str) for name in identity["measures"]) or not identity["checkpoints"]:
            raise TypeError
        names = tuple(identity["measures"])
        points, trials, first = tuple(identity["checkpoints"]), int(identity["trials"]), int(identity["first"])
        values = np.stack([table[name].to_numpy().astype("<f8").reshape(trials, len(points)) for name in names], axis=1)
        runaway = np.asarray(table["runaway"].to_numpy(), dtype=bool).reshape(trials, len(points))[:, 0]
        data = BlockData(names, points, values, runaway)
        good = _checksum(text, _columns(first, data)) == metadata[b"evenroll.sha256"].decode()
        same_rows = all(np.array_equal(table[name].to_numpy(), _columns(first, data)[name]) for name in ("trial", "steps"))
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, AttributeError, OverflowError, IndexError):
        raise DataError("it is torn or not one of ours") from None
    if not good or not same_rows:
        raise DataError("its contents do not fit its checksum")
    if written_by == f"parquet-cpp-arrow version {pa.__version__}" and _bytes(identity, first, data) != raw:
        raise DataError("it is not as it was written")
    return identity, data


# ---- listing and exporting -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredRow:
    """A row of the listing: all blocks that differ only in their trials."""

    domain: str
    method: str
    policy: str
    measures: tuple[str, ...]
    steps: int
    trials: int


def gathered(entries: Iterable[Entry]) -> list[StoredRow]:
    """One row for the blocks of each experiment, in the order of domain and method."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        same = {k: v for k, v in entry.identity.items() if k not in ("first", "trials", "environment", "value")}
        groups.setdefault(json.dumps(same, sort_keys=True), []).append(entry)
    rows = [
        StoredRow(
            group[0].identity["domain"],
            group[0].identity["method"],
            group[0].identity["policy"],
            group[0].data.columns,
            group[0].data.checkpoints[-1],
            sum(e.identity["trials"] for e in group),
        )
        for group in groups.values()
    ]
    return sorted(rows, key=lambda row: (row.domain, row.method, row.measures, row.steps, row.policy))


def check_export(path: Path) -> None:
    """Raise unless an export can be written in the format that this name says."""
    if path.suffix not in (".parquet", ".csv", ".json"):
        raise EvenrollError(f"{path.name}: write to .csv, .json or .parquet")


def write_export(entries: Sequence[Entry], path: Path) -> None:
    """Every trial, checkpoint and measure as one row: domain, method, policy, seed, trial, steps, measure, value."""
    import pyarrow as pa

    check_export(path)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("domain", "method", "policy", "seed", "trial", "steps", "measure", "value", "runaway")
    }
    for entry in entries:
        who, data = entry.identity, entry.data
        for (t, m, p), value in np.ndenumerate(data.values):
            row = (
                who["domain"], who["method"], who["policy"][:16], who["seed"], who["first"] + t, data.checkpoints[p],
                data.columns[m], None if np.isnan(value) else float(value), bool(data.runaway[t]),
            )  # fmt: skip
            for name, item in zip(columns, row, strict=True):
                columns[name].append(item)
    out = io.BytesIO()
    if path.suffix == ".parquet":
        arrow().write_table(pa.table(columns), out, compression="zstd")
    elif path.suffix == ".csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(pa.table(columns), out)
    else:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        out.write((json.dumps({"rows": rows}, allow_nan=False) + "\n").encode())
    write_atomically(path, out.getvalue())
