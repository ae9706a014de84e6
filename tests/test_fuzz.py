"""A short run of `make fuzz`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from tools.fuzz import NAMES, mutated_bytes, mutated_json

ROOT = Path(__file__).parent.parent
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
    refused = [COUNT - r["accepted"] for name, r in zip(NAMES, results, strict=True) if name != "results-block"]
    assert min(refused) > COUNT / 4  # blocks are set aside instead


def test_a_failure_is_not_overlooked(tmp_path: Path) -> None:
    """The same with a reader that lets another error through."""
    code = """
import sys, runpy
from evenroll.policies import files
def careless(path, *more): raise IndexError("not ours")
files.read_tensors = careless
sys.argv = ["fuzz", "policy", "--child", "--count=5"]
runpy.run_module("tools.fuzz", run_name="__main__")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode != 0
    assert "IndexError: not ours" in run.stderr


def test_mutations_mutate() -> None:
    rng = np.random.default_rng(0)
    assert len({mutated_bytes(b"0123456789" * 10, rng) for _ in range(200)}) > 150
    thing = {"a": [1, 2, {"b": "c"}], "d": 1.5}
    assert len({json.dumps(mutated_json(thing, rng)) for _ in range(200)}) > 50
