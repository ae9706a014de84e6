"""Bad files by name, and the ways to add one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenroll.policies import save_policy
from tests.files.corpus.valid import policy

# name → function of (directory, canary) that makes the file and says how it is opened
Maker = Callable[[Path, Path], list[str]]
BAD: dict[str, Maker] = {}


def bad(name: str) -> Callable[[Maker], Maker]:
    def keep(make: Maker) -> Maker:
        BAD[name] = make
        return make

    return keep


def as_policy(name: str, make: Callable[[Path], bytes], file: str = "policy.safetensors") -> None:
    """`make` gets the canary and gives the file's bytes."""

    def maker(directory: Path, canary: Path) -> list[str]:
        (directory / file).write_bytes(make(canary))
        return ["evaluate", "CartPole-v1" if file.endswith(".zip") else "cartpole", "--policy", str(directory / file)]

    BAD[name] = maker


def as_data(name: str, make: Callable[[Path], bytes], file: str = "data.parquet") -> None:
    def maker(directory: Path, canary: Path) -> list[str]:
        (directory / file).write_bytes(make(canary))
        return opened(directory, file)

    BAD[name] = maker


def opened(directory: Path, file: str) -> list[str]:
    save_policy(policy(), directory / "good.safetensors")
    return ["diagnose", str(directory / file), "--policy", str(directory / "good.safetensors")]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def saved(write: Callable[[Any, Path], None], what: Any, suffix: str) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        write(what, Path(place) / f"x{suffix}")
        return (Path(place) / f"x{suffix}").read_bytes()
