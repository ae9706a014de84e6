"""A Stable-Baselines3 zip, read without executing anything in it: tensors and plain JSON only, never its pickles.

The member `data` is JSON. It describes every object as text beside a pickled copy (":serialized:"), which is not looked at.
The member `policy.pth` holds tensors. The two say all there is to know of a policy with one of the library's own features
extractors (`sb3_saved.py`). A model that would need code is refused, and so is a zip that would unpack to more than it
should.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import math
import mmap
import pickletools
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.adapters.sb3_saved import SavedModel, kind_of
from evenroll.errors import DataError, PolicyError
from evenroll.files.inert_pickle import OUTSIDE, described
from evenroll.files.safe_files import check_file, read_json
from evenroll.text.numbers import first_line

# Limits on what a zip may make us read.
LARGEST = 256 << 20  # the most bytes of the zip, and of the tensors when unpacked
JSON_LARGEST = 8 << 20  # the most bytes of `data`
RATIO, SMALL = 16, 1 << 20  # a member may unpack to 16 times its size in the zip, or to 1 MiB if that is more
MOST_MEMBERS = 1000  # the most members of the zip
MEMBER = b"PK\x01\x02"  # what every entry of a zip's directory begins with
DESCRIPTION = 1 << 20  # the most bytes of the description of the tensors
UNREADABLE = (
    zipfile.BadZipFile,
    NotImplementedError,
    KeyError,
    ValueError,
    OSError,
    RuntimeError,
    EOFError,
    zlib.error,
    IndexError,
)
# What the description of named tensors may refer to. Anything else would have to be executed.
GLOBALS = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch FloatStorage",
    "torch DoubleStorage",
    "torch LongStorage",
}
STORAGES = {"torch FloatStorage": "<f4", "torch DoubleStorage": "<f8", "torch LongStorage": "<i8"}
# The operations of which torch makes the description of named tensors.
OPERATIONS = {
    "PROTO", "FRAME", "STOP", "MARK", "GLOBAL", "REDUCE", "BUILD", "BINPERSID", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET",
    "LONG_BINGET", "EMPTY_DICT", "EMPTY_TUPLE", "EMPTY_LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "SETITEM", "SETITEMS",
    "APPEND", "APPENDS", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE",
    "SHORT_BINUNICODE",
}  # fmt: skip
MOST_STEPS, DEEPEST = 100_000, 20  # operations of a description, and how deep it may be nested


def load_sb3(path: str | Path) -> Any:
    """The policy of a saved model: an MLP of ours where it is one, else a `SavedModel`, which `evaluate` takes as it is."""
    path = Path(path)
    try:
        saved = _load(path)
        network = saved.compiled()
        if network is None and importlib.util.find_spec("torch") is None:
            raise PolicyError("its network is no plain MLP, and needs torch: pip install 'evenroll[torch]'")
        return network or saved
    except PolicyError as error:
        raise PolicyError(f"{path.name}: {error}") from None


def members(path: Path, *names: str) -> dict[str, bytes]:
    """The bytes of some members of a zip, after all its limits were checked."""
    check_file(path, LARGEST, PolicyError)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
            _check_directory(raw)
        with zipfile.ZipFile(path) as archive:
            _check_members(archive)
            return {name: _member(archive, name, JSON_LARGEST if name == "data" else LARGEST) for name in names}
    except UNREADABLE as error:
        raise PolicyError(f"not a Stable-Baselines3 zip ({first_line(error)})") from None


def _load(path: Path) -> SavedModel:
    read = members(path, "data", "policy.pth")
    data = read_json(read["data"], "not a Stable-Baselines3 zip: its data", PolicyError)
    kind_of(data)  # raises before the tensors are read
    return SavedModel.of(data, _tensors(read["policy.pth"]))


def _check_directory(raw: bytes | mmap.mmap) -> None:
    """Raise if the directory of a zip may be longer than a model's. It is counted without being read.

    Reading it would make an object of every entry, and a directory of empty entries packs a hundred to one.
    """
    if sum(1 for _ in itertools.islice(re.finditer(re.escape(MEMBER), raw), MOST_MEMBERS + 1)) > MOST_MEMBERS:
        raise PolicyError("not a Stable-Baselines3 zip (too many members, or two of one name)")


def _check_members(archive: zipfile.ZipFile) -> None:
    """Raise if the members are too many, or if a name in it is doubled or leads out of the zip's directory.

    Nothing is ever written to disk, but a zip with such a name is no model.
    """
    members = archive.infolist()
    if len(members) > MOST_MEMBERS or len({m.filename for m in members}) < len(members):
        raise PolicyError("not a Stable-Baselines3 zip (too many members, or two of one name)")
    for member in members:
        if member.filename.startswith(("/", "\\")) or ".." in member.filename.replace("\\", "/").split("/"):
            raise PolicyError("not a Stable-Baselines3 zip (a name in it leads out of it)")


def _member(archive: zipfile.ZipFile, name: str, largest: int) -> bytes:
    """A member's bytes. No more bytes come out of it than its header says."""
    about = archive.getinfo(name)
    if about.file_size > largest or about.file_size > max(RATIO * about.compress_size, SMALL):
        raise PolicyError(f"{name} is larger than {largest >> 20} MiB, or than {RATIO} times its packed size, when unpacked")
    if about.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise PolicyError(f"{name} is compressed in a way that Stable-Baselines3 does not use")
    return archive.read(about)


def _tensors(data: bytes) -> dict[str, np.ndarray]:
    """The named tensors of a .pth file, in double precision. They are read here, because importing torch takes a second."""
    try:
        _check_directory(data)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_members(archive)
            if any(m.compress_type != zipfile.ZIP_STORED or m.file_size > len(data) for m in archive.infolist()):
                raise PolicyError("policy.pth is compressed, which torch does not do")
            (file,) = (m for m in archive.infolist() if m.filename.endswith("/data.pkl"))
            if file.file_size > DESCRIPTION:
                raise PolicyError(f"its tensors cannot be read (described in more than {DESCRIPTION >> 20} MiB)")
            pickled = archive.read(file)
            _check_globals(pickled)
            folder = file.filename.removesuffix("data.pkl")
            if f"{folder}byteorder" in archive.namelist() and archive.read(f"{folder}byteorder") != b"little":
                raise PolicyError("its tensors cannot be read (their bytes are in the other order)")
            tensors: dict[str, np.ndarray] = {}
            room = len(data)  # a file may have one number fill a huge tensor, but not here
            named = described(pickled, outside=True)
            for name, call in list(named.items()) if isinstance(named, dict) else named.items:
                tensors[str(name)] = _tensor(archive, folder, call, room)
                room -= tensors[str(name)].size
            return tensors
    except (*UNREADABLE, DataError, AttributeError, TypeError) as error:
        raise PolicyError(f"its tensors cannot be read ({first_line(error)})") from None


def _tensor(archive: zipfile.ZipFile, folder: str, call: Any, room: int) -> np.ndarray:
    """A tensor from its description: (storage, offset, sizes, strides, …). It has at most `room` numbers."""
    if call.name != "torch._utils _rebuild_tensor_v2":
        raise ValueError("not all of them are tensors")
    storage, offset, sizes, strides, *_ = call.arguments
    if storage.name != OUTSIDE:
        raise ValueError("a tensor has no storage")
    _, kind, key, _, count = storage.arguments
    if not all(type(n) is int and 0 <= n <= LARGEST for n in (offset, count, *sizes, *strides)):
        raise ValueError("a size is no number of bytes")
    if len(sizes) != len(strides) or math.prod(sizes) > room:
        raise ValueError("more numbers than bytes")
    numbers = np.frombuffer(archive.read(f"{folder}data/{key}"), STORAGES[kind.name])
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if len(numbers) != count or (0 not in sizes and last >= count):
        raise ValueError("a tensor is larger than its storage")
    if 0 in sizes:
        return np.zeros(sizes)
    steps = [stride * numbers.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(numbers[offset:], sizes, steps, writeable=False).astype(np.float64)


def _check_globals(pickled: bytes) -> None:
    """Raise if the description of the tensors would call anything unknown, or does what torch does not do.

    It is found out without calling anything. torch's own reader allows some more.
    """
    open_marks = 0
    for steps, (code, argument, _) in enumerate(pickletools.genops(pickled)):
        if code.name not in OPERATIONS or steps > MOST_STEPS:
            raise PolicyError("its tensors cannot be read (they are described by code)")
        if code.name == "GLOBAL" and argument not in GLOBALS:
            raise PolicyError(f"its tensors cannot be read (they refer to {argument})")
        open_marks += 1 if code.name == "MARK" else -1 if code.name in ("TUPLE", "SETITEMS", "APPENDS") else 0
        if open_marks > DEEPEST:
            raise PolicyError("its tensors cannot be read (their description is nested too deeply)")
