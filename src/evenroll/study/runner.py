"""From blocks that are wanted to blocks that are there: read, or computed and written, each once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from evenroll.parallel import in_order
from evenroll.study.blocks import Block, BlockData, compute
from evenroll.study.store import Store

PATIENCE = 0.2  # seconds between looks at a block that another process is computing


def ensure(
    store: Store, blocks: Iterable[Block], *, workers: int | None = None, done: Callable[[Block, bool], None] | None = None
) -> dict[Block, BlockData]:
    """Every block, from the store where it is there; `done(block, computed)` after each. What is computed is written
    before the next begins, so a run that is killed has lost only what was in flight."""
    found: dict[Block, BlockData] = {}

    def note(block: Block, data: BlockData, computed: bool) -> None:
        found[block] = data
        if done is not None:
            done(block, computed)

    for block in dict.fromkeys(blocks):
        data = store.load(block)
        if data is not None:
            note(block, data, False)
        else:
            found.pop(block, None)
    waiting = [block for block in dict.fromkeys(blocks) if block not in found]

    def one(block: Block) -> bool:
        with store.claim(block) as mine:
            if not mine:
                return False
            data = store.load(block)  # another process may have finished it meanwhile
            computed = data is None
            if data is None:
                data = compute(block)
                store.save(block, data)
            note(block, data, computed)
            return True

    while waiting:
        finished = in_order(one, waiting, workers)
        waiting = [block for block, good in zip(waiting, finished, strict=True) if not good]
        if waiting:
            time.sleep(PATIENCE)
    return found
