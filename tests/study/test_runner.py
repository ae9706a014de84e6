"""Running blocks: the same bytes with any workers, in any order, after any number of kills."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenroll.executors.pool import get_pool
from evenroll.study.blocks import SAMPLING_ERRORS, Block, Work, compute, compute_together
from evenroll.study.runner import ensure
from evenroll.study.store import Store
from tests.helpers import BLOCKS, WORK


def tree(directory: Path) -> dict[str, str]:
    """Every data file and a hash of its bytes."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(directory.glob("??/*.parquet"))}


def test_bytes_do_not_depend_on_workers_or_order(tmp_path: Path) -> None:
    """If the number of workers, the order or the size of a batch entered the arithmetic, hashes would differ."""
    ensure(Store(tmp_path / "one"), BLOCKS[:8], pool=get_pool(workers=1))
    ensure(Store(tmp_path / "seven"), BLOCKS[7::-1], pool=get_pool(workers=7))
    assert tree(tmp_path / "one") == tree(tmp_path / "seven")
    whole, part = compute(Block(WORK, 0, 6)).values, compute(Block(WORK, 4, 2)).values
    np.testing.assert_array_equal(whole[4:], part)


def test_after_its_time_nothing_is_begun_and_what_is_there_is_read(tmp_path: Path) -> None:
    store, late = Store(tmp_path), time.perf_counter()
    assert ensure(store, BLOCKS[:3], pool=get_pool(workers=1), until=late) == {}
    ensure(store, BLOCKS[:2], pool=get_pool(workers=1), until=late + 600.0)
    assert set(ensure(store, BLOCKS[:3], pool=get_pool(workers=1), until=late)) == set(BLOCKS[:2])
    assert not list(tmp_path.glob("claims/*"))
    held = store.claim(BLOCKS[2])  # by another process, which is not waited for
    assert held is not None
    assert set(ensure(store, BLOCKS[1:3], until=time.perf_counter() + 0.1)) == {BLOCKS[1]}
    held.release()


def _run(directory: str, results: object = None) -> None:
    computed = 0

    def done(block: Block, new: bool) -> None:
        nonlocal computed
        computed += new

    ensure(Store(directory), BLOCKS, pool=get_pool(workers=2), done=done)
    if results is not None:
        results.put(computed)  # type: ignore[attr-defined]


def test_two_processes_share_a_store_and_do_nothing_twice(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    runs = [context.Process(target=_run, args=(str(tmp_path), results)) for _ in range(2)]
    for run in runs:
        run.start()
    counts = [results.get(timeout=120) for _ in runs]
    for run in runs:
        run.join()
    assert sum(counts) == len(BLOCKS)
    assert len(tree(tmp_path)) == len(BLOCKS)


def test_killed_ten_times_the_store_is_the_same(tmp_path: Path, base_seed: int) -> None:
    """SIGKILL at random moments, each run going on where the last one died."""
    ensure(Store(tmp_path / "whole"), BLOCKS, pool=get_pool(workers=2))
    context, rng = multiprocessing.get_context("fork"), random.Random(base_seed)
    killed = tmp_path / "killed"
    started = time.perf_counter()
    _run(str(tmp_path / "timed"))
    usual = time.perf_counter() - started
    kills = 0
    while kills < 10:
        run = context.Process(target=_run, args=(str(killed),))
        run.start()
        time.sleep(rng.uniform(0.0, usual / 4))
        if run.is_alive():
            os.kill(run.pid, signal.SIGKILL)  # type: ignore[arg-type]
            kills += 1
        run.join()
        if len(tree(killed)) == len(BLOCKS):  # finished early: begin again, the remaining kills are still due
            for path in list(killed.glob("??/*.parquet"))[::2]:
                path.unlink()
    ensure(Store(killed), BLOCKS, pool=get_pool(workers=2))
    assert tree(killed) == tree(tmp_path / "whole")
    assert not list(killed.glob("aside/*"))  # an atomic write leaves nothing torn behind


@pytest.mark.parametrize("domain", ["bandit", "gridworld", "cartpole", "cartpole-continuous"])
@pytest.mark.parametrize("collect", ["os", "bpg", "init+auto"])
def test_measuring_together_changes_no_bit(domain: str, collect: str) -> None:
    """What the targets measure of the same data: alone, or all at once, in any order."""
    measures = [("mc",), ("ois",), ("wris", *SAMPLING_ERRORS), ("fqe",), SAMPLING_ERRORS]
    measures += [("wis+mc",)] if collect.startswith("init") else []
    blocks = [Block(Work(domain, collect, m, (1.0, 8.0)), 1, 2) for m in measures]
    if collect == "init+auto":  # without weights the guard sees a few steps only
        with pytest.raises(ValueError, match="collected alike"):
            compute_together(blocks)
        blocks = blocks[1:]
    together = compute_together(blocks[::-1])[::-1]
    for block, data in zip(blocks, together, strict=True):
        alone = compute(block)
        assert data.columns == alone.columns
        np.testing.assert_array_equal(data.values, alone.values)
        np.testing.assert_array_equal(data.runaway, alone.runaway)


def test_what_is_asked_for_later_is_computed_with_what_shares_its_data(tmp_path: Path) -> None:
    """One trial of both blocks, and bytes like those of two runs."""
    now, other = Block(WORK, 0, 2), Block(replace(WORK, seed=WORK.seed + 1), 0, 2)
    later = Block(replace(WORK, measures=("ois",)), 0, 2)
    early: list[Block] = []
    found = ensure(Store(tmp_path / "together"), [now], later=[other, later], ahead=early.append, pool=get_pool(workers=2))
    assert (set(found), early) == ({now}, [later])
    assert Store(tmp_path / "together").load(other) is None
    again: list[bool] = []
    ensure(Store(tmp_path / "together"), [later], done=lambda block, computed: again.append(computed))
    assert again == [False]
    ensure(Store(tmp_path / "apart"), [now, later], pool=get_pool(workers=1))
    assert tree(tmp_path / "together") == tree(tmp_path / "apart")
    with pytest.raises(ValueError, match="collected alike"):
        compute_together([now, other])
