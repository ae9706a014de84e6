"""Malicious and broken policies."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from evenroll.policies import save_policy
from tests.files.corpus.registry import as_policy, bad, flipped, saved
from tests.files.corpus.valid import BIG, DEEP, Bomb, policy, zipped


def raw_tensors(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with any header, of any claimed length."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


LINEAR = {"head.weight": np.ones((2, 4), np.float32), "head.bias": np.zeros(2, np.float32)}
SPEC = json.dumps({"kind": "mlp", "activation": "relu", "head": "softmax"})
META = {"evenroll.policy": SPEC}


def tensors(arrays: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> bytes:
    return bytes(save({**LINEAR, **arrays}, metadata=metadata or META))


def claims(shape: list[int], offsets: list[int]) -> dict[str, Any]:
    return {"__metadata__": META, "head.weight": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}


as_policy("an empty file", lambda c: b"")
as_policy("noise", lambda c: np.random.default_rng(1).bytes(5000))
as_policy("a header of 2^60 bytes", lambda c: raw_tensors({}, length=2**60))
as_policy("a header of 2^64 - 1 bytes", lambda c: raw_tensors({}, length=2**64 - 1))
as_policy("a header longer than the file", lambda c: raw_tensors({}, length=1000))
as_policy("10^12 numbers claimed", lambda c: raw_tensors(claims([10**6, 10**6], [0, 4 * BIG])))
as_policy("10^12 numbers in 4 bytes", lambda c: raw_tensors(claims([10**6, 10**6], [0, 4]), bytes(4)))
as_policy("a shape that overflows", lambda c: raw_tensors(claims([2**32, 2**32], [0, 4]), bytes(4)))
as_policy("a negative shape", lambda c: raw_tensors(claims([-1, 4], [0, 16]), bytes(16)))
as_policy("no numbers, 10^15 wide", lambda c: raw_tensors(claims([0, 10**15], [0, 0])))
as_policy("offsets that run backwards", lambda c: raw_tensors(claims([2, 2], [16, 0]), bytes(16)))
as_policy("bytes that belong to no tensor", lambda c: tensors({}) + bytes(100))
as_policy("a header 100,000 deep", lambda c: raw_tensors(DEEP.encode()))
as_policy("a header that is no JSON", lambda c: raw_tensors(b"{'a': __import__('os')}"))
as_policy("metadata 100,000 deep", lambda c: tensors({}, {"evenroll.policy": DEEP}))
as_policy("a number of 10,000 digits", lambda c: tensors({}, {"evenroll.policy": '{"kind": ' + "9" * 10_000 + "}"}))
as_policy("a truncated policy", lambda c: saved(save_policy, policy(), ".safetensors")[:-7])
as_policy("a flipped bit", lambda c: flipped(saved(save_policy, policy(), ".safetensors"), -3))
as_policy(
    "tanh exchanged for relu",
    lambda c: saved(save_policy, policy(), ".safetensors").replace(b"tanh", b"relu"),
)
as_policy("NaN weights", lambda c: tensors({"head.bias": np.full(2, np.nan, np.float32)}))
as_policy("infinite weights", lambda c: tensors({"head.bias": np.full(2, np.inf, np.float32)}))
as_policy("whole-number weights", lambda c: tensors({"head.bias": np.zeros(2, np.int64)}))
as_policy("a name that plays with the terminal", lambda c: tensors({"\x1b]0;owned\x07\x1b[2J\nx": np.ones(2, np.float32)}))
as_policy("a name of a million letters", lambda c: tensors({"x" * 10**6: np.ones(2, np.float32)}))
as_policy("a pickle", lambda c: pickle.dumps(Bomb(c)), "policy.pkl")
as_policy("a pickle by a good name", lambda c: pickle.dumps(Bomb(c)))
as_policy("a YAML tag", lambda c: f"!!python/object/apply:os.system ['touch {c}']".encode(), "policy.yaml")
as_policy("a script", lambda c: f"import os; os.system('touch {c}')".encode(), "policy.py")
as_policy("a joblib-like .npy", lambda c: npy(Bomb(c)), "policy.npy")
as_policy("an .npz with a pickle", lambda c: zipped({"logits.npy": npy(Bomb(c))}), "policy.npz")
as_policy("an old .pt", lambda c: torched(Bomb(c), zipfile_format=False), "policy.pt")
as_policy("a .pt", lambda c: torched(Bomb(c)), "policy.pt")


def npy(thing: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([thing], dtype=object), allow_pickle=True)
    return out.getvalue()


def torched(thing: Any, zipfile_format: bool = True) -> bytes:
    out = io.BytesIO()
    torch.save(thing, out, _use_new_zipfile_serialization=zipfile_format)
    return out.getvalue()


@bad("a directory")
def _(directory: Path, canary: Path) -> list[str]:
    return ["evaluate", "cartpole", "--policy", str(directory)]


@bad("a pipe")
def _(directory: Path, canary: Path) -> list[str]:
    os.mkfifo(directory / "pipe")
    return ["evaluate", "cartpole", "--policy", str(directory / "pipe")]


@bad("an endless device")
def _(directory: Path, canary: Path) -> list[str]:
    return ["evaluate", "cartpole", "--policy", "/dev/zero"]


@bad("a hole of a terabyte")
def _(directory: Path, canary: Path) -> list[str]:
    with (directory / "hole.safetensors").open("wb") as file:
        file.truncate(1 << 40)
    return ["evaluate", "cartpole", "--policy", str(directory / "hole.safetensors")]


@bad("a name that is too long")
def _(directory: Path, canary: Path) -> list[str]:
    return ["evaluate", "cartpole", "--policy", "x" * 5000]
