"""A short run of `make fuzz`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import ROOT
from tools.fuzz import MEMORY, NAMES, attempts, mutated_bytes, mutated_json

COUNT = 100


def test_mutated_files_are_refused_or_read(base_seed: int) -> None:
    """Of every kind: no other error, no crash, none over 5 s, no more than 1 GiB. One child, which a crash would end."""
    run = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", *NAMES, "--child", f"--count={COUNT}", f"--seed={base_seed}"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert [r["inputs"] for r in results] == [COUNT] * len(NAMES)
    refused = {name: COUNT - r["accepted"] for name, r in zip(NAMES, results, strict=True)}
    del refused["results-block"]  # a block that is not sound is set aside, not refused
    assert min(refused.values()) > COUNT / 4, refused


def test_a_failure_is_not_overlooked() -> None:
    """Any error but ours ends the run, and so does asking for too much memory."""

    def make(directory: Path) -> Path:
        (directory / "file").write_bytes(b"good")
        return directory / "file"

    def careless(path: Path) -> None:
        if path.read_bytes() != b"good":
            raise IndexError("not ours")

    def greedy(path: Path) -> None:
        if path.read_bytes() != b"good":
            np.zeros(2 * MEMORY, np.uint8)

    for open_it, error in ((careless, IndexError), (greedy, MemoryError)):
        with pytest.raises(error):
            attempts("policy", (make, mutated_bytes, open_it), 20, 0, 0)


def test_mutations_mutate() -> None:
    rng = np.random.default_rng(0)
    assert len({mutated_bytes(b"0123456789" * 10, rng) for _ in range(200)}) > 150
    thing = {"a": [1, 2, {"b": "c"}], "d": 1.5}
    assert len({json.dumps(mutated_json(thing, rng)) for _ in range(200)}) > 50
