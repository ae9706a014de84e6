"""The results store: written once, found again, never believed when damaged, the same bytes after any number of kills."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from evenroll.executors.pool import get_pool
from evenroll.study.blocks import SAMPLING_ERRORS, Block, Work, compute, resolve
from evenroll.study.runner import ensure
from evenroll.study.sources import digest_of, reachable
from evenroll.study.store import Store, gathered

WORK = Work("gridworld", "ros", ("wris", *SAMPLING_ERRORS), (1.0, 2.0, 4.0))
MANY = [
    Block(Work("gridworld", sampler, ("mc",), (1.0, 64.0, 512.0)), 4 * i, 4) for sampler in ("os", "ros") for i in range(20)
]


def tree(directory: Path) -> dict[str, str]:
    """Every data file and a hash of its bytes."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(directory.glob("??/*.parquet"))}


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


def test_everything_that_determines_a_block_is_in_its_identity() -> None:
    base = Block(WORK, 0, 5)
    others = [
        Block(WORK, 5, 5),
        Block(WORK, 0, 6),
        *(
            Block(Work(**{**vars(WORK), **change}), 0, 5)
            for change in (
                {"seed": 1}, {"budgets": (1.0, 2.0, 8.0)}, {"collect": "ros:alpha=10"}, {"collect": "os"},
                {"collect": "init+ros"}, {"domain": "gridworld:noise=1"}, {"epsilon": 0.5}, {"measures": ("mc",)},
            )
        ),
    ]  # fmt: skip
    assert len({b.key for b in (base, *others)}) == len(others) + 1
    assert base.key == Block(Work("gridworld", "ros:alpha=1000", WORK.measures, WORK.budgets), 0, 5).key  # spelt otherwise


def test_the_sources_that_count_are_those_a_trial_runs_through() -> None:
    estimator = resolve(Work("gridworld", "ros", ("mc",), (1.0,))).estimators[0].function
    found = reachable("evenroll.study.trials", type(resolve(WORK).sampler), estimator)
    wanted = {"collect", "kernel", "rollouts", "samplers.ros", "estimators.monte_carlo", "policies.tabular", "study.trials"}
    assert {f"evenroll.{name}" for name in wanted} <= found
    without = {"study.figures", "study.report", "plots", "cli", "leaderboard", "samplers.auto", "estimators.fqe", "bench"}
    assert not {f"evenroll.{name}" for name in without} & found


def test_editing_a_source_changes_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "my_sampler.py"
    module.write_text("STRENGTH = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = digest_of("my_sampler")
    module.write_text("STRENGTH = 2\n")
    assert digest_of("my_sampler") != before


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


def test_bytes_do_not_depend_on_workers_or_order(tmp_path: Path) -> None:
    """If the number of workers, the order or the size of a batch entered the arithmetic, hashes would differ."""
    ensure(Store(tmp_path / "one"), MANY[:8], pool=get_pool(workers=1))
    ensure(Store(tmp_path / "seven"), MANY[7::-1], pool=get_pool(workers=7))
    assert tree(tmp_path / "one") == tree(tmp_path / "seven")
    whole, part = compute(Block(WORK, 0, 6)).values, compute(Block(WORK, 4, 2)).values
    np.testing.assert_array_equal(whole[4:], part)


def _run(directory: str, results: object = None) -> None:
    computed = 0

    def done(block: Block, new: bool) -> None:
        nonlocal computed
        computed += new

    ensure(Store(directory), MANY, pool=get_pool(workers=2), done=done)
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
    assert sum(counts) == len(MANY)
    assert len(tree(tmp_path)) == len(MANY)


def test_killed_ten_times_the_store_is_the_same(tmp_path: Path, base_seed: int) -> None:
    """SIGKILL at random moments, each run going on where the last one died."""
    ensure(Store(tmp_path / "whole"), MANY, pool=get_pool(workers=2))
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
        if len(tree(killed)) == len(MANY):  # finished early: begin again, the remaining kills are still due
            for path in list(killed.glob("??/*.parquet"))[::2]:
                path.unlink()
    ensure(Store(killed), MANY, pool=get_pool(workers=2))
    assert tree(killed) == tree(tmp_path / "whole")
    assert not list(killed.glob("aside/*"))  # an atomic write leaves nothing torn behind


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


def test_what_a_killed_writer_left_is_cleared_away(tmp_path: Path) -> None:
    store, block = Store(tmp_path), MANY[0]
    path = store.path(block.key)
    path.parent.mkdir(parents=True)
    (path.parent / f".{path.name}.half").write_bytes(b"half a file")
    ensure(store, [block], pool=get_pool(workers=1))
    assert [p.name for p in path.parent.iterdir()] == [path.name]
