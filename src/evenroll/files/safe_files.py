"""Safe files. A crash leaves the old file or the new one; reading a file never runs code and never takes all the memory.

Our arrays are stored as safetensors with two entries of metadata: what the arrays mean (JSON, under the caller's key), and
a checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from evenroll.errors import EvenrollError
from evenroll.text.numbers import first_line

# What a file may ask for before anything of it is unpacked.
HEADER = 8 << 20  # the most bytes of the description at the beginning of a safetensors file
MOST_VALUES = 1_000_000  # the most values in a JSON text: as Python objects they take up to 120 MB

CHECKSUM = "evenroll.sha256"  # the checksum's key in the metadata
CHANGED = f"its contents do not fit its checksum: damaged, or changed (if on purpose, drop {CHECKSUM} from the metadata)"


# ---- writing -------------------------------------------------------------------------------------------------------


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write a temporary file in the same directory, fsync it, rename it, and fsync the directory."""
    with _beside(Path(path), directory=False) as temporary:
        temporary.write_bytes(data)


@contextmanager
def new_directory(path: str | Path) -> Iterator[Path]:
    """Give an empty directory to fill. It then appears at `path` as a whole."""
    with _beside(Path(path), directory=True) as temporary:
        yield temporary


def try_place(path: str | Path, directory: bool = False) -> None:
    """Raise now if a file, or a new directory, could not be written at `path` later. What is there stays as it is."""
    path = Path(path)
    _check_target(path, directory)
    if not path.absolute().parent.is_dir():
        raise EvenrollError(f"cannot write {path}: there is no directory {path.absolute().parent.name}")
    try:
        trial = _temporary(path, directory=False)
        try:
            trial.write_bytes(bytes(4096))
        finally:
            trial.unlink(missing_ok=True)
    except OSError as error:
        raise EvenrollError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def _beside(path: Path, directory: bool) -> Iterator[Path]:
    """Give a temporary file or directory beside `path`, which takes its place once it has been written to the disk."""
    try:
        _check_target(path, directory)
        temporary = _temporary(path, directory)
        try:
            yield temporary
            for written in (*temporary.rglob("*"), temporary):
                _fsync(written)
            if path.exists():  # the new file may be read and written by those who could read and write the old one
                temporary.chmod(stat.S_IMODE(path.stat().st_mode))
            os.replace(temporary, path)
        except BaseException:
            if directory:
                shutil.rmtree(temporary, ignore_errors=True)
            else:
                temporary.unlink(missing_ok=True)
            raise
        _fsync(path.parent)
    except OSError as error:
        raise EvenrollError(f"cannot write {path}: {error.strerror or error}") from error


def _check_target(path: Path, directory: bool) -> None:
    if directory and path.exists():
        raise EvenrollError(f"cannot write {path}: it exists already")
    if path.is_dir():
        raise EvenrollError(f"cannot write {path}: it is a directory, not a file")
    if path.exists() and not path.is_file():
        raise EvenrollError(f"cannot write {path}: it is not a regular file")


def _temporary(path: Path, directory: bool) -> Path:
    """A new file or directory beside `path`, hidden. The umask says who may read it; nobody, if it is to replace a file."""
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    if directory:
        temporary.mkdir()
        return temporary
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if path.exists() else 0o666))
    return temporary


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def tensor_bytes(key: str, spec: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a safetensors file of these arrays. Empty arrays are left out. Equal arrays have equal bytes."""
    kept = {name: np.ascontiguousarray(x) for name, x in arrays.items() if x.size}
    text = json.dumps(spec)
    return _in_order(bytes(save(kept, metadata={key: text, CHECKSUM: checksum(text, kept)})))


def _in_order(file: bytes) -> bytes:
    """The same file with a sorted description: safetensors writes the entries of its metadata in a random order."""
    length = int.from_bytes(file[:8], "little")
    text = json.dumps(json.loads(file[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the arrays begin at a multiple of 8
    return len(text).to_bytes(8, "little") + text + file[8 + length :]


def checksum(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    """The SHA-256 of a text and of the names, types, shapes and bytes of arrays."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        x = arrays[name]
        digest.update(f"\n{name} {x.dtype.str} {x.shape}\n".encode())
        digest.update(x.tobytes())
    return digest.hexdigest()


# ---- reading -------------------------------------------------------------------------------------------------------


def check_file(path: Path, largest: int, kind: type[EvenrollError]) -> None:
    """Raise an error of this kind unless the path is a regular file of at most `largest` bytes.

    A directory, a pipe or an endless device is refused.
    """
    try:
        if not path.is_file():
            raise kind("it is not a regular file" if path.exists() else "no such file")
        if path.stat().st_size > largest:
            raise kind(f"larger than {largest >> 20} MiB")
        path.open("rb").close()  # a file that may not be read is reported here
    except OSError as error:
        raise kind(f"cannot be read: {error.strerror or error}") from None


def read_bytes(path: Path, largest: int, kind: type[EvenrollError]) -> bytes:
    check_file(path, largest, kind)
    try:
        return path.read_bytes()
    except OSError as error:
        raise kind(f"cannot be read: {error.strerror or error}") from None


def read_json(text: str | bytes, what: str, kind: type[EvenrollError]) -> dict[str, Any]:
    """The JSON object that a text describes. Its values are counted before any is made: lists take 20 times their text."""
    signs: Any = ("[", "{", ",", ":") if isinstance(text, str) else (b"[", b"{", b",", b":")
    if sum(text.count(sign) for sign in signs) > MOST_VALUES:
        raise kind(f"{what} has more than {MOST_VALUES:,} values")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise kind(f"{what} is not JSON") from None
    if not isinstance(value, dict):
        raise kind(f"{what} must be a JSON object")
    return value


def read_tensors(
    path: Path, key: str, largest: int, kind: type[EvenrollError]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `tensor_bytes` wrote: (spec, arrays). A file without a checksum is read; a wrong checksum is refused."""
    check_file(path, largest, kind)
    try:
        with path.open("rb") as start:
            length = int.from_bytes(start.read(8), "little")
        if length > HEADER:
            raise kind(f"not a safetensors file that is read (a description of more than {HEADER >> 20} MiB)")
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, TypeError, ValueError, KeyError, AttributeError, OSError) as error:
        raise kind(f"not a readable safetensors file ({first_line(error)})") from None
    if key not in metadata:
        raise kind(f"the metadata has no key {key}")
    if CHECKSUM in metadata and metadata[CHECKSUM] != checksum(metadata[key], arrays):
        raise kind(CHANGED)
    return read_json(metadata[key], f"the metadata key {key}", kind), arrays
