"""Malicious and broken Minari datasets."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa

from tests.files.corpus.registry import BAD, opened
from tests.files.corpus.valid import BIG, DEEP, valid


def minari(name: str, **about: Any) -> None:
    """A dataset with other metadata; None takes an entry away."""

    def maker(directory: Path, canary: Path) -> list[str]:
        valid(directory)
        path = directory / "data.minari" / "data" / "metadata.json"
        told = json.loads(path.read_text())
        for key, value in about.items():
            told[key] = value(canary) if callable(value) else value
        path.write_text(json.dumps({key: value for key, value in told.items() if value is not None}))
        return opened(directory, "data.minari")

    BAD[f"minari: {name}"] = maker


def minari_file(name: str, change: Callable[[bytes], bytes], inside: str = "0/part-0.arrow") -> None:
    def maker(directory: Path, canary: Path) -> list[str]:
        valid(directory)
        path = directory / "data.minari" / "data" / inside
        path.write_bytes(change(path.read_bytes()))
        return opened(directory, "data.minari")

    BAD[f"minari: {name}"] = maker


def environment(canary: Path) -> str:
    """An environment's description that calls anything when it is built."""
    about: dict[str, Any] = {"id": "x-v0", "entry_point": "os:system", "kwargs": {"command": f"touch {canary}"}}
    return gym.envs.registration.EnvSpec(**about).to_json()


def compressed(data: bytes) -> bytes:
    """The same, with 64 MiB of zeros behind a few bytes."""
    table = pa.table({"observations": np.zeros(8 << 20)})
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write(table)
    return out.getvalue()


BOX = {"type": "Box", "dtype": "float64", "low": -1.0, "high": 1.0}
minari("builds an environment", observation_space=None, env_spec=environment)
minari("a space of 10^12 numbers", observation_space=json.dumps(BOX | {"shape": [BIG]}))
minari("10^12 bits", observation_space=json.dumps({"type": "MultiBinary", "n": BIG}))
minari("a space of objects", observation_space=json.dumps(BOX | {"shape": [4], "dtype": "O"}))
minari("a space of spaces", observation_space=json.dumps({"type": "Dict", "subspaces": {}}))
minari("a space 100,000 deep", observation_space=DEEP)
minari("10^12 episodes", total_episodes=BIG)
minari("another format", data_format="hdf5")
minari("a format that is a path", data_format="../../../etc/passwd")
minari_file("metadata 100,000 deep", lambda data: DEEP.encode(), "metadata.json")
minari_file("metadata of noise", lambda data: b"\xff\xfe\xfd", "metadata.json")
minari_file("a truncated episode", lambda data: data[: len(data) // 2])
minari_file("an empty episode", lambda data: b"")
minari_file("a compressed bomb", compressed)
minari_file("a file of 2^60 bytes", lambda data: data[:8] + b"\xff\xff\xff\xff" + struct.pack("<i", 2**31 - 1) + data[16:])
