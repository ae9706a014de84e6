"""The results store: written once, found again, never believed when damaged."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenroll.errors import EvenrollError
from evenroll.executors.pool import get_pool
from evenroll.study.blocks import SAMPLING_ERRORS, Block, Work, compute, identity_key, resolve
from evenroll.study.runner import ensure
from evenroll.study.store import Store, _bytes, gathered, write_export
from tests.helpers import BLOCKS, WORK, command


def test_what_is_stored_is_what_was_computed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    block = Block(Work("cartpole", "init+auto", ("mc", *SAMPLING_ERRORS), (1.0, 2.0)), 3, 2)
    assert store.load(block) is None
    data = compute(block)
    store.save(block, data)
    again = store.load(block)
    assert again is not None
    assert again.columns == ("mc", "kl", "grad_norm")
    assert again.checkpoints == resolve(block.work).checkpoints
    assert again.checkpoints[0] == 0
    np.testing.assert_array_equal(again.values, data.values)
    np.testing.assert_array_equal(again.runaway, data.runaway)
    (entry,) = store.entries()
    assert entry.identity == block.identity()
    assert [(row.domain, row.trials) for row in gathered([entry])] == [("cartpole", 2)]


def test_no_estimate_is_null_and_comes_back_as_nan(tmp_path: Path) -> None:
    """After one mean episode some trials have no finished trajectory."""
    import pyarrow.parquet

    store, block = Store(tmp_path), Block(Work("cartpole", "os", ("mc",), (1.0,)), 0, 30)
    found = ensure(store, [block], pool=get_pool(workers=1))[block]
    missing = int(np.isnan(found.values).sum())
    assert 0 < missing < 30
    assert pyarrow.parquet.read_table(store.path(block.key))["mc"].null_count == missing
    assert np.isnan(store.load(block).values).sum() == missing  # type: ignore[union-attr]


DAMAGE = {
    "empty": lambda raw, other: b"",
    "truncated": lambda raw, other: raw[: len(raw) // 2],
    "without its last byte": lambda raw, other: raw[:-1],
    "foreign": lambda raw, other: b"PAR1 not at all PAR1",
    "another block under this name": lambda raw, other: other,
    **{f"bit flipped at {at}": (lambda raw, other, at=at: _flip(raw, at)) for at in (0.02, 0.1, 0.2, 0.5, 0.9)},
}


def _flip(raw: bytes, share: float) -> bytes:
    at = int(share * len(raw))
    return raw[:at] + bytes([raw[at] ^ 0x10]) + raw[at + 1 :]


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_set_aside_said_and_computed_again(kind: str, tmp_path: Path) -> None:
    said: list[str] = []
    store, (block, other) = Store(tmp_path, said.append), WORK.blocks(100)
    ensure(store, [block, other], pool=get_pool(workers=1))
    path = store.path(block.key)
    good = path.read_bytes()
    path.write_bytes(DAMAGE[kind](good, store.path(other.key).read_bytes()))
    counts = {True: 0, False: 0}
    ensure(
        store,
        [block, other],
        pool=get_pool(workers=1),
        done=lambda b, computed: counts.update({computed: counts[computed] + 1}),
    )
    assert counts == {True: 1, False: 1}
    assert path.read_bytes() == good
    assert len(said) == 1
    assert "set aside" in said[0]
    assert len(list((tmp_path / "aside").iterdir())) == 1


def test_what_no_store_would_hold_is_set_aside(tmp_path: Path) -> None:
    """A small block that unpacks to more than it may, one whose identity lacks what is listed, a pipe."""
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "ab").mkdir(parents=True)
    bomb = pa.table({"mc": np.zeros(1 << 20)})
    with pq.ParquetWriter(tmp_path / "ab" / "bomb.parquet", bomb.schema, compression="zstd") as writer:
        for _ in range(16):
            writer.write_table(bomb)
    pq.write_table(
        pa.table({"mc": [1.0]}).replace_schema_metadata({"evenroll": json.dumps({})}), tmp_path / "ab" / "x.parquet"
    )
    os.mkfifo(tmp_path / "ab" / "pipe.parquet")
    said: list[str] = []
    assert list(Store(tmp_path, said.append).entries()) == []
    assert len(said) == 3
    assert "larger than 256 MiB when unpacked" in said[0]


HOSTILE: dict[str, Any] = {
    "the terminal": {"domain": "\x1b]0;owned\x07\x1b[2Jgrid", "method": "[red]os/mc[/nothing]"},
    "half a character": {"domain": "\ud800grid"},
    "trials in words": {"trials": "2"},
    "trials as a truth": {"trials": True},
    "no checkpoint": {"checkpoints": []},
    "a measure that is no name": {"measures": [["mc"]]},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_store_neither_controls_the_terminal_nor_stops_the_listing(kind: str, tmp_path: Path) -> None:
    """Its blocks carry a right checksum and a right name: only what they say is foul."""
    store, (block, *_) = Store(tmp_path), WORK.blocks(100)
    ensure(store, [block], pool=get_pool(workers=1))
    entry = next(iter(store.entries()))
    identity = {**entry.identity, **HOSTILE[kind]}
    path = store.path(identity_key(identity))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(_bytes(identity, int(identity["first"]), entry.data))
    (path.parent / "b\x1b[2J[bold.parquet").write_bytes(b"not a block")
    run = command("results", str(tmp_path))
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr
    assert not set(run.stdout + run.stderr) & set("\x1b\x07\ud800")
    assert "set aside" in run.stdout


def test_an_empty_folder_is_no_store(tmp_path: Path) -> None:
    run = command("results", str(tmp_path))
    assert run.returncode == 2
    assert "there is no results store" in run.stderr


def test_what_a_killed_writer_left_is_cleared_away(tmp_path: Path) -> None:
    store, block = Store(tmp_path), BLOCKS[0]
    path = store.path(block.key)
    path.parent.mkdir(parents=True)
    (path.parent / f".{path.name}.half").write_bytes(b"half a file")
    ensure(store, [block], pool=get_pool(workers=1))
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_claim_taken_away_between_is_no_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process opens the claim's file, its owner removes it: the lock on what is left of it protects nothing."""
    store, block = Store(tmp_path), Block(Work("gridworld", "os", ("mc",), (1.0,)), 0, 1)
    import fcntl

    held = store.claim(block)
    assert held is not None
    assert store.claim(block) is None
    true_lock = fcntl.flock

    def lock_after_release(handle: int, how: int) -> None:
        held.release()
        true_lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", lock_after_release)
    assert store.claim(block) is None
    monkeypatch.undo()
    again = store.claim(block)
    assert again is not None
    again.release()


def _in_a_child(run: Any, *arguments: Any) -> str:
    """What `run` says, in a process of its own (limits and users do not come back)."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def child() -> None:
        try:
            run(*arguments)
            theirs.send("nothing")
        except BaseException as error:
            theirs.send(f"{type(error).__name__}: {error}")

    process = context.Process(target=child)
    process.start()
    said = ours.recv() if ours.poll(60) else "silence"
    process.join()
    return str(said)


SIX = [Block(Work("gridworld", "os", ("mc",), (1.0, 16.0)), 2 * i, 2) for i in range(6)]


def _with_small_files(store: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ensure(Store(store), SIX, pool=get_pool(workers=1))


def _as_nobody(store: str) -> None:
    if os.getuid() == 0:
        os.setuid(65534)
    ensure(Store(store), SIX, pool=get_pool(workers=1))


def test_a_full_disk_and_a_read_only_store_are_said_and_cost_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ensure(Store(store), SIX[:3], pool=get_pool(workers=1))
    before = {p: p.read_bytes() for p in store.rglob("*.parquet")}
    said = _in_a_child(_with_small_files, str(store))
    assert said.startswith("EvenrollError: cannot write")
    assert "\n" not in said
    assert not list(store.rglob(".*")), "no half-written file is left"
    for path in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        path.chmod(0o755)
    for path in (store, *(p for p in store.rglob("*") if p.is_dir())):
        path.chmod(0o555)
    said = _in_a_child(_as_nobody, str(store))
    for path in (store, *(p for p in store.rglob("*") if p.is_dir())):
        path.chmod(0o755)
    assert said.startswith("EvenrollError: cannot")
    assert {p: p.read_bytes() for p in store.rglob("*.parquet")} == before
    counts = {True: 0, False: 0}

    def done(block: Block, computed: bool) -> None:
        counts[computed] += 1

    ensure(Store(store), SIX, pool=get_pool(workers=2), done=done)
    assert counts == {True: 3, False: 3}


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_exported_rows_are_the_trials_by_their_number(kind: str, tmp_path: Path) -> None:
    """Two blocks of one experiment: the second one's trials are numbered on from its first."""
    import pyarrow.csv
    import pyarrow.parquet

    work = Work("gridworld", "os", ("mc", *SAMPLING_ERRORS), (1.0, 8.0))
    blocks = [Block(work, 0, 3), Block(work, 3, 2)]
    store, path = Store(tmp_path / "store"), tmp_path / f"all.{kind}"
    data = ensure(store, blocks, pool=get_pool(workers=1))
    write_export(list(store.entries()), path)
    if kind == "json":
        rows = json.loads(path.read_text())["rows"]
    else:
        rows = (pyarrow.csv.read_csv(path) if kind == "csv" else pyarrow.parquet.read_table(path)).to_pylist()
    expected = {
        (block.first + t, data[block].checkpoints[p], data[block].columns[m]): value
        for block in blocks
        for (t, m, p), value in np.ndenumerate(data[block].values)
    }
    assert {trial for trial, _, _ in expected} == {0, 1, 2, 3, 4}
    assert len(rows) == len(expected)
    for row in rows:
        value = expected[row["trial"], row["steps"], row["measure"]]
        assert row["value"] is None if np.isnan(value) else row["value"] == value
        assert (row["domain"], row["method"], row["seed"]) == ("gridworld", "os", 0)


def test_what_was_set_aside_is_never_overwritten(tmp_path: Path) -> None:
    """Files may be removed from `aside`, so their number is no free number."""
    store, block = Store(tmp_path), BLOCKS[0]
    aside = tmp_path / "aside"
    for content in (b"first", b"second", b"third"):
        path = store.path(block.key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        assert store.load(block) is None
        if content == b"second":
            (aside / f"0-{path.name}").unlink()
    assert {p.read_bytes() for p in aside.iterdir()} == {b"second", b"third"}


def test_no_link_leads_out_of_the_store(tmp_path: Path) -> None:
    store, block, outside = Store(tmp_path / "store"), BLOCKS[0], tmp_path / "outside"
    outside.mkdir()
    store.directory.mkdir()
    data = compute(block)
    for name in (block.key[:2], "claims"):
        link = store.directory / name
        link.symlink_to(outside)
        with pytest.raises(EvenrollError, match="is a link"):
            store.save(block, data) if name != "claims" else store.claim(block)
        link.unlink()
    (store.directory / "claims").mkdir()
    (store.directory / "claims" / block.key).symlink_to(outside / "claimed")
    with pytest.raises(EvenrollError, match="cannot write"):
        store.claim(block)
    assert list(outside.iterdir()) == []
    elsewhere = Store(outside)
    elsewhere.save(block, data)
    (store.directory / block.key[:2]).symlink_to(outside / block.key[:2])
    assert store.load(block) is None
    assert list(store.entries()) == []
    assert elsewhere.load(block) is not None
