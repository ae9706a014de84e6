"""Blocks: everything that determines one is in its identity."""

from __future__ import annotations

from evenroll.study.blocks import Block, Work
from tests.helpers import WORK


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
