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


def test_further_blocks_begin_where_the_first_end() -> None:
    """None of them has a trial twice or leaves one out, and none has more steps than a worker may lose."""
    for there, trials in ((10, 20), (200, 400), (5000, 10000)):
        blocks = WORK.further_blocks(there, trials)
        assert [t for b in blocks for t in range(b.first, b.first + b.count)] == list(range(there, trials))
    long = Work("cartpole", "os", ("mc",), (8192.0,))
    assert {b.count for b in long.further_blocks(200, 400)} == {5}
    short = Work("bandit", "os", ("mc",), (1000.0,))
    assert [b.count for b in short.further_blocks(4000, 8000)] == [2000, 2000]
    network = Work("bandit", "os", ("fqe-net-small",), (16.0,))
    assert {b.count for b in network.further_blocks(10, 40)} == {5}
