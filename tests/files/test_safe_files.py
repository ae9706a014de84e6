"""Everything that is written: whole or not at all, told in one line when it fails, and noticed when it was changed."""

from __future__ import annotations

import dataclasses
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from evenroll.collection.rollout_files import load_rollouts, save_minari, save_rollouts
from evenroll.errors import DataError, EvenrollError
from evenroll.evaluation.collector import Collector
from evenroll.files import safe_files
from evenroll.files.figures import save_figure
from evenroll.files.safe_files import read_tensors, tensor_bytes, write_atomically
from evenroll.policies import load_policy, save_policy
from tests.files.corpus.valid import policy, rollouts
from tests.files.test_corpus import run
from tests.helpers import full_disk


def picture(path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    save_figure(plt.figure(), path)


POLICY = policy()


@functools.cache
def collector() -> Collector:
    made = Collector(POLICY, gamma=0.9)
    for step in range(7):
        made.act(np.full(4, 0.1 * step))
        made.observe(1.0, step == 4, False, np.zeros(4))
    return made


BOX = gym.spaces.Box(-np.inf, np.inf, (4,), np.float64)


WRITERS: dict[str, Callable[[Path], None]] = {
    "policy.safetensors": lambda path: save_policy(policy(), path),
    "data.safetensors": lambda path: save_rollouts(rollouts(), path),
    "data.parquet": lambda path: save_rollouts(rollouts(), path),
    "data.minari": lambda path: save_minari(rollouts(), path, BOX, gym.spaces.Discrete(2)),
    "collector.safetensors": lambda path: collector().save(path),
    "picture.png": picture,
    "picture.pdf": picture,
    "result.json": lambda path: write_atomically(path, b"{}" * 500),
}


@contextmanager
def not_allowed(*paths: Path) -> Iterator[None]:
    """These may be neither written nor read, not even by root."""
    modes = {path: path.stat().st_mode for path in paths}
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0)
    if os.geteuid() == 0:
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
            for path, mode in modes.items():
                path.chmod(mode)
    else:
        yield
        for path, mode in modes.items():
            path.chmod(mode)


def everything(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() if p.is_file() else b"" for p in directory.rglob("*")}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_what_was_there(name: str, tmp_path: Path) -> None:
    if name != "data.minari":  # those are never written over
        (tmp_path / name).write_bytes(b"the earlier one")
    before = everything(tmp_path)
    collector()  # compiled and cached while there is room
    with full_disk(), pytest.raises(EvenrollError, match=rf"cannot write .*{name}: .*too large") as told:
        WRITERS[name](tmp_path / name)
    assert "\n" not in str(told.value)
    assert everything(tmp_path) == before
    WRITERS[name](tmp_path / name)  # and when there is room again
    assert len(everything(tmp_path)) > (1 if name == "data.minari" else 0)


@pytest.mark.parametrize("name", WRITERS)
def test_a_read_only_directory_is_told(name: str, tmp_path: Path) -> None:
    tmp_path.parent.chmod(0o755)  # pytest's own are for their owner only
    tmp_path.parent.parent.chmod(0o755)
    WRITERS[name](tmp_path / f"first.{name}")  # what is imported on first use is imported
    before = everything(tmp_path)
    with not_allowed(tmp_path), pytest.raises(EvenrollError, match=r"cannot write .*Permission denied"):
        WRITERS[name](tmp_path / name)
    assert everything(tmp_path) == before


def test_the_command_line_tells_too(tmp_path: Path, monkeypatch, capsys) -> None:
    """Exit code 2 and one line, before anything is computed where that can be known; nothing half-written."""
    tmp_path.parent.chmod(0o755)
    tmp_path.parent.parent.chmod(0o755)
    save_policy(policy(), tmp_path / "p.safetensors")
    result = ["value", "gridworld", "--json", str(tmp_path / "r.json")]
    unreadable = ["evaluate", "CartPole-v1", "--policy", str(tmp_path / "p.safetensors"), "--episodes", "2"]
    for arguments in (["value", "gridworld"], ["evaluate", "CartPole-v1", "--policy", "missing"]):
        run(arguments, monkeypatch, capsys)  # what is imported on first use is imported
    before = everything(tmp_path)
    with not_allowed(tmp_path, tmp_path / "p.safetensors"):
        for arguments in (result, unreadable):
            code, said = run(arguments, monkeypatch, capsys)
            assert (code, said.count("\n")) == (2, 1)
            assert "ermission denied" in said
    with full_disk():
        code, said = run(result, monkeypatch, capsys)
    assert (code, said.count("\n")) == (2, 1)
    assert "too large" in said
    assert everything(tmp_path) == before


def test_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch) -> None:
    """fsync of the file, then the rename, then fsync of the directory: a power failure cannot leave a hole."""
    order: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted(handle: int) -> None:
        order.append("directory" if Path(f"/proc/self/fd/{handle}").resolve() == tmp_path.resolve() else "file")
        fsync(handle)

    monkeypatch.setattr(safe_files.os, "fsync", noted)
    monkeypatch.setattr(safe_files.os, "replace", lambda a, b: (order.append("rename"), replace(a, b)))
    write_atomically(tmp_path / "a", b"x")
    assert order == ["file", "rename", "directory"]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o007])
def test_the_umask_and_the_modes_of_what_is_there_are_kept(umask: int, tmp_path: Path) -> None:
    """A private file stays private, a shared one shared; what is new is as private as whoever writes it wants."""

    def mode(name: str) -> int:
        return (tmp_path / name).stat().st_mode & 0o777

    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "new", b"x")
        with safe_files.new_directory(tmp_path / "folder") as folder:
            (folder / "file").write_bytes(b"x")
        assert (mode("new"), mode("folder")) == (0o666 & ~umask, 0o777 & ~umask)
        assert (tmp_path / "folder" / "file").stat().st_mode & 0o777 == 0o666 & ~umask
        for kept in (0o600, 0o640, 0o666, 0o444):
            (tmp_path / "old").write_bytes(b"before")
            (tmp_path / "old").chmod(kept)
            write_atomically(tmp_path / "old", b"after")
            assert (mode("old"), (tmp_path / "old").read_bytes()) == (kept, b"after")
            (tmp_path / "old").unlink()
    finally:
        os.umask(before)


def test_a_place_is_tried_by_writing_there(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"before")
    safe_files.try_place(tmp_path / "old")
    safe_files.try_place(tmp_path / "new")
    assert everything(tmp_path) == {"old": b"before"}
    with full_disk(), pytest.raises(EvenrollError, match=r"cannot write .*too large"):
        safe_files.try_place(tmp_path / "new")
    with pytest.raises(EvenrollError, match="exists already"):
        safe_files.try_place(tmp_path / "old", directory=True)
    with pytest.raises(EvenrollError, match="there is no directory missing"):
        safe_files.try_place(tmp_path / "missing" / "x.minari", directory=True)
    assert everything(tmp_path) == {"old": b"before"}


WRITE_FOREVER = """
import sys
from evenroll.files.safe_files import write_atomically
sizes = [10, 3_000_000]
while True:
    for size in sizes:
        write_atomically(sys.argv[1], bytes([size % 251]) * size)
    print("once", flush=True)
"""


def test_killed_at_any_moment_the_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    whole = {bytes([size % 251]) * size for size in (10, 3_000_000)}
    for i in range(8):
        child = subprocess.Popen([sys.executable, "-c", WRITE_FOREVER, str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.003 * i)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert path.read_bytes() in whole


def same(a: Any, b: Any) -> bool:
    return all(
        np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y
        for x, y in zip(vars(a).values(), vars(b).values(), strict=True)
    )


READERS: dict[str, Callable[[Path], Any]] = {
    "policy.safetensors": lambda path: load_policy(path).theta,
    "data.safetensors": load_rollouts,
    "data.parquet": load_rollouts,
    "collector.safetensors": lambda path: Collector(POLICY, gamma=0.9).resume(path).rollouts(),
}


@pytest.mark.parametrize("name", READERS)
def test_a_changed_bit_is_noticed(name: str, tmp_path: Path) -> None:
    """Whichever it is: the file is refused, or what is read is the same (a bit of padding, or of the checksum's name)."""
    path = tmp_path / name
    WRITERS[name](path)
    data = path.read_bytes()
    good = READERS[name](path)
    rng = np.random.default_rng(0)
    refused = 0
    for at in range(0, len(data), max(len(data) // 300, 1)):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :])
        try:
            again = READERS[name](path)
        except EvenrollError:
            refused += 1
            continue
        assert same(again, good) if dataclasses.is_dataclass(good) else np.array_equal(again, good)
    assert refused > 200


def test_old_files_have_no_checksum_and_are_read(tmp_path: Path) -> None:
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    path = tmp_path / "p.safetensors"
    save_policy(policy(), path)
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    assert metadata.pop(safe_files.CHECKSUM)
    theta = load_policy(path).theta
    save_file(load_file(path), path, metadata)
    np.testing.assert_array_equal(load_policy(path).theta, theta)


def test_equal_arrays_have_equal_bytes(tmp_path: Path) -> None:
    """The library below writes its metadata in a random order. Half of all files would differ."""
    arrays = {"b": np.arange(3.0), "a": np.arange(5, dtype=np.int32), "c": np.zeros((2, 2), np.float32)}
    first = tensor_bytes("key", {"x": 1, "ä": "ö"}, arrays)
    assert all(tensor_bytes("key", {"x": 1, "ä": "ö"}, arrays) == first for _ in range(30))
    (tmp_path / "file").write_bytes(first)
    spec, read = read_tensors(tmp_path / "file", "key", 1 << 20, DataError)
    assert spec == {"x": 1, "ä": "ö"}
    assert all(np.array_equal(read[name], x) and read[name].dtype == x.dtype for name, x in arrays.items())
