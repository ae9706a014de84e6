"""Malicious and broken rollouts: Parquet and safetensors."""

from __future__ import annotations

import io
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save

from evenroll.collection.rollout_files import save_rollouts
from tests.files.corpus.registry import as_data, flipped, saved
from tests.files.corpus.valid import BIG, DEEP, Bomb, rollouts

TABLE: dict[str, Any] = {
    "episode": [0, 0, 1],
    "observation": [[0.0, 1.0, 0.0, 0.0]] * 3,
    "action": [0, 1, 0],
    "reward": [1.0, 2.0, 4.0],
}


def parquet(metadata: dict[str, str] | None = None, without: str = "", **columns: Any) -> bytes:
    table = pa.table({name: column for name, column in (TABLE | columns).items() if name != without})
    out = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), out)
    return out.getvalue()


def parquet_bomb(rows: int) -> bytes:
    """Zeros without end: all of a page is one run."""
    out, part = io.BytesIO(), pa.table({name: np.zeros(1 << 20) for name in TABLE})
    with pq.ParquetWriter(out, part.schema, compression="zstd") as writer:
        for _ in range(rows >> 20):
            writer.write_table(part)
    return out.getvalue()


def extension(canary: Path) -> bytes:
    """A type of Python's own, which old versions of pyarrow unpickled when the file was opened (CVE-2023-47248)."""
    named = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": pickle.dumps(Bomb(canary))}
    schema = pa.schema([pa.field("episode", pa.int64(), metadata=named)])
    out = io.BytesIO()
    pq.write_table(pa.table({"episode": [0]}, schema=schema), out)
    return out.getvalue()


LONG = {name: np.zeros(10**6) for name in TABLE} | {"observation": pa.FixedSizeListArray.from_arrays(np.zeros(4 * 10**6), 4)}


def lying(which: int) -> bytes:
    """A file that in one place claims 2^20 − 1 rows instead of 10^6 (both are varints of 3 bytes)."""
    parts = parquet(**LONG).split(b"\x80\x89\x7a")
    at = which % (len(parts) - 1)
    return b"\x80\x89\x7a".join(parts[: at + 1]) + b"\xfe\xff\x7f" + b"\x80\x89\x7a".join(parts[at + 1 :])


def columns(arrays: dict[str, Any], spec: Any = None) -> bytes:
    text = spec if isinstance(spec, str) else json.dumps({"gamma": 0.9, "steps": 3, "horizon": None} | (spec or {}))
    usual = {
        "observations": np.zeros((3, 4)), "actions": np.zeros((3, 1)), "rewards": np.ones(3), "ends": np.array([2]),
        "returns": np.ones(1), "terminated": np.array([True]),
    }  # fmt: skip
    return bytes(save(usual | arrays, metadata={"evenroll.rollouts": text}))


as_data("parquet: empty", lambda c: b"")
as_data("parquet: noise", lambda c: b"PAR1" + np.random.default_rng(1).bytes(1000) + b"PAR1")
as_data("parquet: a footer of 2 GiB", lambda c: parquet()[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1")
as_data("parquet: truncated", lambda c: parquet()[:-20])
as_data("parquet: a bomb", lambda c: parquet_bomb(20 << 20))
for place in (0, 1, 4):  # the others are places that nobody reads
    as_data(f"parquet: more rows than there are, {place}", lambda c, place=place: lying(place))  # type: ignore[misc]
as_data("parquet: a pickled type", extension)
as_data("parquet: encrypted", lambda c: parquet()[:-4] + b"PARE")
as_data("parquet: text for numbers", lambda c: parquet(reward=["1", "2", "3"]))
as_data("parquet: a column is missing", lambda c: parquet(without="reward"))
as_data("parquet: lists of different lengths", lambda c: parquet(observation=[[0.0] * 4, [0.0] * 3, [0.0] * 5]))
as_data("parquet: lists in lists", lambda c: parquet(observation=[[[0.0], [0.0, 1.0]]] * 3))
as_data("parquet: a missing action", lambda c: parquet(action=[0, None, 1]))
as_data("parquet: a NaN reward", lambda c: parquet(reward=[1.0, np.nan, 1.0]))
as_data("parquet: an action that there is not", lambda c: parquet(action=[0, 7, 1]))
as_data("parquet: a negative action", lambda c: parquet(action=[0, -1, 1]))
as_data("parquet: half an action", lambda c: parquet(action=[0.0, 0.5, 1.0]))
as_data("parquet: episodes mixed up", lambda c: parquet(episode=[0, 1, 0]))
as_data("parquet: an endless discount", lambda c: parquet({"evenroll.rollouts": '{"gamma": 1e999, "horizon": null}'}))
as_data("parquet: metadata 100,000 deep", lambda c: parquet({"evenroll.rollouts": DEEP}))
as_data("parquet: a horizon of lists", lambda c: parquet({"evenroll.rollouts": '{"gamma": 1.0, "horizon": [[]]}'}))
as_data("parquet: changed since", lambda c: parquet({"evenroll.sha256": "0" * 64}))
as_data("parquet: no rows", lambda c: parquet(**{name: np.zeros(0) for name in TABLE}))
as_data("columns: 10^12 steps", lambda c: columns({"ends": np.array([BIG])}, {"steps": BIG}), "data.safetensors")
as_data("columns: endless steps", lambda c: columns({}, '{"gamma": 1, "steps": 1e999, "horizon": null}'), "data.safetensors")
as_data("columns: ends run backwards", lambda c: columns({"ends": np.array([2, 1])}), "data.safetensors")
as_data("columns: ends that are not whole", lambda c: columns({"ends": np.array([1.5])}), "data.safetensors")
as_data("columns: returns of NaN", lambda c: columns({"returns": np.array([np.nan])}), "data.safetensors")
as_data("columns: three dimensions", lambda c: columns({"observations": np.zeros((3, 2, 2))}), "data.safetensors")
as_data("columns: a number for a column", lambda c: columns({"rewards": np.array(1.0)}), "data.safetensors")
as_data("columns: a pickle", lambda c: pickle.dumps(Bomb(c)), "data.safetensors")
as_data(
    "columns: a flipped bit", lambda c: flipped(saved(save_rollouts, rollouts(), ".safetensors"), -3), "data.safetensors"
)
as_data("a pickle for data", lambda c: pickle.dumps(Bomb(c)), "data.pkl")
