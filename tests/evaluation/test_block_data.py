"""Blocks that were read from files: whatever does not fit is refused before compiled code meets it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.errors import DataError
from evenroll.evaluation.block_data import checked, half_said, joined
from evenroll.evaluation.episode_blocks import Block, Collected
from evenroll.evaluation.workers import WorkersSource

BLOCK = Block(0, 1, False)


@pytest.fixture(scope="module")
def source() -> Any:
    made = WorkersSource("evenroll/GridWorld-v0", get_domain("gridworld").policy())
    list(made.collect(2, None, at_once=True))
    yield made
    made.close()


def first(source: WorkersSource) -> tuple[Collected, dict[str, np.ndarray]]:
    return source._in_order()[0], {"vectors": source.recorder.stepper.balance.vectors * 0.0,  # type: ignore[union-attr]
                                   "memory": source.recorder.stepper.balance.memory * 0.0}  # type: ignore[union-attr]  # fmt: skip


def test_a_good_block_is_taken(source: WorkersSource) -> None:
    block, state = first(source)
    assert checked(block, BLOCK, source.recorder, state) is block


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("actions", lambda x: x + 17.0),
        ("observations", lambda x: x - 1000.0),
        ("observations", lambda x: x[:-1]),
        ("rewards", lambda x: x * np.nan),
        ("ends", lambda x: x * 0),
        ("ends", lambda x: x + 1),
        ("ends", lambda x: x.astype(np.float64)),
        ("terminated", lambda x: x.astype(np.int64)),
        ("returns", lambda x: np.append(x, 1.0)),
        ("log_b", lambda x: x[:, None]),
    ],
)
def test_data_that_does_not_fit_is_refused(source: WorkersSource, name: str, change: Any) -> None:
    block, state = first(source)
    with pytest.raises(DataError):
        checked(Collected({**block.columns, name: change(block.columns[name])}, block.added), BLOCK, source.recorder, state)
    missing = {key: x for key, x in block.columns.items() if key != name}
    with pytest.raises(DataError):
        checked(Collected(missing, block.added), BLOCK, source.recorder, state)


@pytest.mark.parametrize("name", ["memory", "clock", "tally"])
def test_a_balance_that_does_not_fit_is_refused(source: WorkersSource, name: str) -> None:
    block, state = first(source)
    for wrong in (block.added[name][:-1], block.added[name] * np.nan):
        with pytest.raises(DataError, match="does not fit"):
            checked(Collected(block.columns, {**block.added, name: wrong}), BLOCK, source.recorder, state)


def test_success_counts_only_if_every_episode_says_so(source: WorkersSource) -> None:
    blocks = [
        Collected({**b.columns, "success": np.array([flag])}, b.added)
        for b, flag in zip(source._in_order(), (1.0, np.nan), strict=True)
    ]
    assert joined(blocks, source.recorder, 2).success is None
    assert joined(blocks[:1], source.recorder, 2).success.tolist() == [1.0]  # type: ignore[union-attr]
    assert "1 of 2 episodes only" in half_said(blocks)[0]
    assert half_said(blocks[:1]) == half_said(blocks[1:]) == half_said([]) == ()
