"""The spool: one run each, one process at a time, and what is in it is what was put there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenroll.errors import EvenrollError
from evenroll.evaluation.episode_blocks import Block, Collected
from evenroll.evaluation.spool import RUN, Spool

IDENTITY: dict[str, Any] = {"seed": 1, "policy": "a", "place": [1]}
BLOCK, STATE = Block(8, 2, False), {"vectors": np.arange(3.0), "memory": np.ones(2)}
FOUND = Collected(
    {"returns": np.array([1.0, 2.0]), "ends": np.array([3, 5]), "terminated": np.array([True, False])},
    {"vectors": np.zeros(0), "memory": np.ones(2), "clock": np.array([5, 2]), "tally": np.zeros(4)},
)


def test_what_was_saved_is_there_for_the_next_process(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "new" / "spool", IDENTITY)
    assert spool.load(BLOCK, STATE) is None
    spool.save(BLOCK, STATE, FOUND)
    spool.close()
    again = Spool(tmp_path / "new" / "spool", dict(reversed(IDENTITY.items())))
    found = again.load(BLOCK, STATE)
    assert found is not None
    assert {n: x.tolist() for n, x in found.columns.items()} == {n: x.tolist() for n, x in FOUND.columns.items()}
    assert {n: x.tolist() for n, x in found.added.items()} == {n: x.tolist() for n, x in FOUND.added.items()}
    assert again.damaged == []
    again.close()


def test_a_block_from_another_snapshot_is_not_used(tmp_path: Path) -> None:
    spool = Spool(tmp_path, IDENTITY)
    spool.save(BLOCK, STATE, FOUND)
    assert spool.load(BLOCK, {**STATE, "memory": np.zeros(2)}) is None
    assert spool.damaged == ["block-00000008-2.safetensors"]
    assert spool.load(Block(8, 2, True), STATE) is None
    spool.close()


def test_a_torn_file_is_named(tmp_path: Path) -> None:
    spool = Spool(tmp_path, IDENTITY)
    spool.save(BLOCK, STATE, FOUND)
    path = tmp_path / "block-00000008-2.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    assert spool.load(BLOCK, STATE) is None
    assert spool.damaged == [path.name]
    spool.close()


def test_another_run_or_an_unknown_one_is_refused(tmp_path: Path) -> None:
    Spool(tmp_path, IDENTITY).close()
    with pytest.raises(EvenrollError, match="another run, with another seed, policy: give a directory of its own"):
        Spool(tmp_path, {**IDENTITY, "seed": 2, "policy": "b"})
    with pytest.raises(EvenrollError, match="by another version"):
        Spool(tmp_path, {"seed": 1, "policy": "a"})
    (tmp_path / RUN).unlink()
    (tmp_path / "block-00000000-1.safetensors").write_bytes(b"")
    with pytest.raises(EvenrollError, match="unknown run"):
        Spool(tmp_path, IDENTITY)


def test_two_processes_do_not_share_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path, IDENTITY)
    with pytest.raises(EvenrollError, match="another process is collecting"):
        Spool(tmp_path, IDENTITY)
    spool.close()
    Spool(tmp_path, IDENTITY).close()


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EvenrollError, match="cannot write to the spool"):
        Spool(tmp_path / "file" / "spool", IDENTITY)


def test_the_number_of_resets_is_kept(tmp_path: Path) -> None:
    spool = Spool(tmp_path, IDENTITY)
    assert spool.resets(64) is None
    spool.note_resets(64, 0, "a reset takes 3 s")
    assert spool.resets(64) == (0, "a reset takes 3 s")
    (tmp_path / "resets-00000064.json").write_text('{"count": -1}')
    assert spool.resets(64) is None
    spool.close()
