"""Rollouts in files: .parquet and .csv (one row a step), .safetensors (columns), or a Minari directory (.minari).

The files keep log π_e and log π_b. Reading a file builds no environment and runs no code: only spaces and numbers are read,
with limits on what a file may unpack to. Files that we write carry a checksum.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.collection.assembling import PER_EPISODE, PER_STEP, checked, unlisted, with_gamma
from evenroll.collection.minari_files import read_minari, save_minari
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.table_columns import COLUMNS, CSV_LARGEST, from_columns, read_csv
from evenroll.errors import DataError, SpecError
from evenroll.files.safe_files import (
    CHANGED,
    CHECKSUM,
    checksum,
    read_bytes,
    read_json,
    read_tensors,
    tensor_bytes,
    try_place,
    write_atomically,
)
from evenroll.files.untrusted_arrow import most_unpacked, pyarrow, read_parquet
from evenroll.text.numbers import first_line
from evenroll.text.specs import whole_number

KEY = "evenroll.rollouts"
LARGEST = 4 << 30  # the most bytes of a file
OTHERS = (
    "rollouts are read from .parquet, .csv, .safetensors or a Minari directory; from anything else make a dictionary of the "
    "columns episode, observation, action and reward in Python, and evenroll.save_rollouts(evenroll.as_rollouts(columns), "
    "'data.parquet')"
)


def save_rollouts(data: Rollouts, path: str | Path) -> None:
    """Write what was recorded, in the format that the file's name says."""
    path = Path(path)
    writers = {".parquet": _write_parquet, ".safetensors": _write_columns}
    if path.suffix not in writers:
        raise DataError(f"{path.name}: rollouts are written as .parquet or .safetensors")
    writers[path.suffix](data, path)


def check_target(path: str | Path) -> None:
    """Raise now if rollouts could not be written here later: the place, the ending, or a package that is missing."""
    path = Path(path)
    if path.suffix not in (".parquet", ".safetensors", ".minari"):
        raise SpecError(f"{path.name}: data is written as .parquet, .safetensors or .minari")
    if path.suffix == ".minari" and importlib.util.find_spec("minari") is None:  # asked first: its extra brings pyarrow, too
        raise SpecError(f"{path.name} needs minari: pip install 'evenroll[minari]'")
    if path.suffix != ".safetensors":
        pyarrow()
    try_place(path, directory=path.suffix == ".minari")


def load_rollouts(path: str | Path, gamma: float | None = None) -> Rollouts:
    """Read rollouts.

    gamma  replaces the discount that they were written with; files of others (Minari) have no discount, which counts as 1
    """
    path = Path(path)
    try:
        if path.is_dir():
            data = read_minari(path)
        elif path.suffix == ".parquet":
            data = _read_parquet(path)
        elif path.suffix == ".csv":
            data = _read_csv(path)
        elif path.suffix == ".safetensors":
            data = _read_columns(path)
        else:
            raise DataError(OTHERS)
    except (DataError, SpecError) as error:
        raise DataError(f"{path.name or path}: {error}") from None
    except OSError as error:
        raise DataError(f"{path.name or path}: cannot be read: {error.strerror or error}") from None
    return data if gamma is None or gamma == data.gamma else with_gamma(data, gamma)


# ---- safetensors ---------------------------------------------------------------------------------------------------


def _write_columns(data: Rollouts, path: Path) -> None:
    arrays = {name: getattr(data, name) for name in (*PER_STEP, *PER_EPISODE)}
    spec = {"gamma": data.gamma, "steps": data.steps, "horizon": data.horizon, "starts": data.starts}
    write_atomically(path, tensor_bytes(KEY, spec, {name: x for name, x in arrays.items() if x is not None}))


def _read_columns(path: Path) -> Rollouts:
    spec, arrays = read_tensors(path, KEY, LARGEST, DataError)
    kinds = {"ends": "i", "terminated": "b"}
    for name, array in arrays.items():
        if array.ndim == 0 or array.dtype.kind not in kinds.get(name, "fiu"):
            raise DataError(f"not rollouts ({name} has type {array.dtype})")
    try:
        return checked(
            Rollouts(
                float(spec["gamma"]),
                int(spec["steps"]),
                arrays.get("returns", np.zeros(0)),
                arrays.get("ends", np.zeros(0, np.int64)).astype(np.int64),
                arrays.get("terminated", np.zeros(0, bool)),
                arrays.get("log_weights"),
                arrays.get("observations"),
                arrays.get("actions"),
                arrays.get("rewards"),
                arrays.get("log_e"),
                arrays.get("log_b"),
                horizon=spec["horizon"],
                success=arrays.get("success"),
                starts=whole_number("starts", spec.get("starts", 0), 0),
            )
        )
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise DataError(f"not rollouts ({first_line(error)})") from None


# ---- Parquet -------------------------------------------------------------------------------------------------------


def _write_parquet(data: Rollouts, path: Path) -> None:
    """Write one row for each step. A reader in any language finds γ in the metadata.

    The columns are episode, t, observation, action (both lists), reward, log_e, log_b, terminated, truncated and success.
    The last three are set in the last step of an episode.
    """
    pa = pyarrow()
    n, lengths = data.episodes, data.lengths
    episode = np.append(np.repeat(np.arange(n), lengths), np.full(data.steps - int(lengths.sum()), n))
    first = np.append(data.ends - lengths, data.ends[-1] if n else 0)
    last, success = np.zeros(data.steps, bool), np.full(data.steps, np.nan)
    last[data.ends - 1] = True
    ended = np.zeros(data.steps, bool)
    ended[data.ends - 1] = data.terminated
    recorded = {
        "episode": episode, "t": np.arange(data.steps) - first[episode], "observation": data.observations,
        "action": data.actions, "reward": data.rewards, "log_e": data.log_e, "log_b": data.log_b,
    }  # fmt: skip
    columns = {name: column for name, column in recorded.items() if column is not None}
    columns |= {"terminated": ended, "truncated": last & ~ended}
    if data.success is not None:
        success[data.ends - 1] = data.success
        columns["success"] = success
    text = json.dumps({"gamma": data.gamma, "horizon": data.horizon, "starts": data.starts})
    table = pa.table({name: _listed(pa, column) for name, column in columns.items()})
    table = table.replace_schema_metadata({KEY: text, CHECKSUM: checksum(text, columns)})
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink)
    write_atomically(path, sink.getvalue().to_pybytes())


def _listed(pa: Any, column: np.ndarray) -> Any:
    """A column of numbers, or of lists of them."""
    if column.ndim == 1:
        return pa.array(column)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(column).ravel()), column.shape[1])


def _read_parquet(path: Path) -> Rollouts:
    raw = read_bytes(path, LARGEST, DataError)
    table = read_parquet(raw, most_unpacked(len(raw)), COLUMNS)
    metadata = table.schema.metadata or {}
    text = metadata.get(KEY.encode(), b'{"gamma": 1.0, "horizon": null}')
    spec = read_json(text, f"the metadata key {KEY}", DataError)
    try:
        columns = {name: unlisted(table.column(name)) for name in table.column_names}
        if CHECKSUM.encode() in metadata and metadata[CHECKSUM.encode()] != checksum(text.decode(), columns).encode():
            raise DataError(CHANGED)
        starts = whole_number("starts", spec.get("starts", 0), 0)
        return from_columns(columns, float(spec["gamma"]), spec["horizon"], starts)
    except (ValueError, KeyError, TypeError, OverflowError, IndexError) as error:
        raise DataError(f"its columns do not fit ({first_line(error)})") from None


def _read_csv(path: Path) -> Rollouts:
    try:
        return from_columns(read_csv(read_bytes(path, CSV_LARGEST, DataError)))
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise DataError(f"its columns do not fit ({first_line(error)})") from None


__all__ = ["load_rollouts", "save_minari", "save_rollouts", "with_gamma"]
