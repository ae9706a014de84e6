"""Malicious and broken zips of Stable-Baselines3."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.files.corpus.policies import torched
from tests.files.corpus.registry import as_policy
from tests.files.corpus.saved_models import BAD_ZIPS
from tests.files.corpus.valid import BIG, DEEP, Bomb, sb3_data, sb3_tensors, sb3_zip, zipped


def sb3(name: str, make: Callable[[Path], bytes]) -> None:
    as_policy(f"sb3: {name}", make, "model.zip")


def repickled(pickled: bytes) -> bytes:
    """policy.pth with another description of its tensors."""
    with zipfile.ZipFile(io.BytesIO(sb3_tensors())) as old:
        members = {m: old.read(m) for m in old.namelist()}
    (name,) = (m for m in members if m.endswith("data.pkl"))
    return zipped(members | {name: pickled})


def huge_view() -> bytes:
    """One number that is told to fill a tensor of 10^12."""
    return sb3_tensors(**{"action_net.bias": torch.zeros(1).expand(BIG)})


def contents(data: bytes) -> int:
    """The place of a zip's table of contents."""
    return struct.unpack_from("<I", data, data.rindex(b"PK\5\6") + 16)[0]


def patched_size(data: bytes, size: int) -> bytes:
    """A zip whose table of contents claims another size for its first member."""
    at = contents(data) + 24
    return data[:at] + struct.pack("<I", size) + data[at + 4 :]


def with_flag(data: bytes, flag: int) -> bytes:
    """A zip with other flags of its first member: 1 is encryption."""
    for at in (6, contents(data) + 8):
        data = data[:at] + struct.pack("<H", flag) + data[at + 2 :]
    return data


def twice(data: bytes) -> bytes:
    out = io.BytesIO(data)
    with zipfile.ZipFile(out, "a") as archive:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            archive.writestr("data", b"{}")
    return out.getvalue()


ASKS = b"\x80\x02cbuiltins\nbytearray\n\x8a\x06\0\0\0\0\0\x01\x85R."  # bytearray(2 ** 40)


def changed(**entries: Any) -> dict[str, Any]:
    return sb3_data() | entries


def members(**more: bytes) -> bytes:
    return zipped({"data": json.dumps(sb3_data()).encode(), "policy.pth": sb3_tensors(), **more})


sb3("a pickle for tensors", lambda c: sb3_zip(tensors=pickle.dumps(Bomb(c))))
sb3("a bomb in the tensors", lambda c: sb3_zip(tensors=torched(Bomb(c))))
sb3("a bomb that describes the tensors", lambda c: sb3_zip(tensors=repickled(pickle.dumps(Bomb(c), protocol=2))))
sb3("a bomb of protocol 4", lambda c: sb3_zip(tensors=repickled(pickle.dumps(Bomb(c), protocol=4))))
sb3("a bomb of protocol 0", lambda c: sb3_zip(tensors=repickled(pickle.dumps(Bomb(c), protocol=0))))
sb3("10^12 bytes asked for", lambda c: sb3_zip(tensors=repickled(ASKS)))
sb3("10^12 numbers from one", lambda c: sb3_zip(tensors=huge_view()))
sb3("NaN weights", lambda c: sb3_zip(tensors=sb3_tensors(**{"action_net.bias": torch.full((2,), torch.nan)})))
sb3("a matrix that is a number", lambda c: sb3_zip(tensors=sb3_tensors(**{"action_net.weight": torch.ones(())})))
sb3("tensors that are text", lambda c: sb3_zip(tensors=sb3_tensors(**{"action_net.bias": "0, 0"})))  # type: ignore[arg-type]
sb3("compressed tensors", lambda c: sb3_zip(tensors=zipped({"archive/data.pkl": bytes(1 << 20)}, zipfile.ZIP_DEFLATED)))
sb3("a path that escapes", lambda c: members(**{"../../../escaped": b"x"}))
sb3("an absolute path", lambda c: members(**{"/etc/passwd": b"x"}))
sb3("a path of another system", lambda c: members(**{"..\\..\\escaped": b"x"}))
sb3("a zip bomb", lambda c: sb3_zip(b'"' + b"x" * (32 << 20) + b'"', kind=zipfile.ZIP_DEFLATED))
sb3("4 GiB claimed", lambda c: patched_size(sb3_zip(), 2**32 - 2))
sb3("less claimed than there is", lambda c: patched_size(sb3_zip(), 10))
sb3("JSON 100,000 deep", lambda c: sb3_zip(DEEP.encode()))
sb3("JSON that is a list", lambda c: sb3_zip(b"[1]"))
sb3("no tensors", lambda c: zipped({"data": json.dumps(sb3_data()).encode()}))
sb3("a password", lambda c: with_flag(sb3_zip(), 1))
sb3("another compression", lambda c: sb3_zip(kind=zipfile.ZIP_LZMA))
sb3("a wrong checksum", lambda c: sb3_zip().replace(b"use_sde", b"use_sdf", 1))
sb3("two of one name", lambda c: twice(sb3_zip()))
sb3("2,000 members", lambda c: members(**{str(i): b"" for i in range(2000)}))
sb3("truncated", lambda c: sb3_zip()[:-50])
sb3("a class of its own", lambda c: sb3_zip(changed(policy_class={"__module__": "os", "__init__": "system"})))
sb3("settings that are a list", lambda c: sb3_zip(changed(policy_kwargs=[1])))
sb3("an unknown activation", lambda c: sb3_zip(changed(policy_kwargs={"activation_fn": "<class 'os.system'>"})))
for name, bad in BAD_ZIPS.items():
    sb3(name, lambda c, bad=bad: bad)  # type: ignore[misc]
