"""Gets blocks: each is read from the store, or computed and written once."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator

from evenroll.errors import EvenrollError
from evenroll.executors.pool import Pool, completed, get_pool
from evenroll.study.blocks import Block, BlockData, compute
from evenroll.study.store import Claim, Store

PATIENCE = 0.2  # seconds between looks at a block that another process is computing; a choice


def ensure(
    store: Store,
    blocks: Iterable[Block],
    *,
    pool: Pool | None = None,
    done: Callable[[Block, bool], None] | None = None,
    until: float | None = None,
) -> dict[Block, BlockData]:
    """Every block, read from the store if it is there and computed otherwise. `done(block, computed)` is called after each.

    From the time `until` on, by `time.perf_counter`, no block is begun. Those in flight are finished and kept, and the
    blocks that were neither in the store nor begun are missing from the result.

    Workers only compute. This process claims, reads and writes, so that all results are in the store and nowhere else.
    Whoever is killed, only what was in flight is lost.
    """
    data_by_block: dict[Block, BlockData] = {}
    claims: dict[Block, Claim] = {}

    def note(block: Block, data: BlockData, computed: bool) -> None:
        data_by_block[block] = data
        if done is not None:
            done(block, computed)

    def late() -> bool:
        return until is not None and time.perf_counter() >= until

    def there(block: Block) -> bool:
        data = store.load(block)
        if data is not None:
            note(block, data, False)
        return data is not None

    def ours(waiting: Iterable[Block]) -> Iterator[tuple[Block, str]]:
        """The blocks to compute here and now. They are not in the store, and no other process is computing them."""
        for block in waiting:
            if late():
                return
            claim = store.claim(block)
            if claim is None:
                continue
            claims[block] = claim
            if there(block):  # another process has finished it meanwhile
                claims.pop(block).release()
            else:
                yield block, block.key

    waiting = [block for block in dict.fromkeys(blocks) if not there(block)]
    try:
        while waiting:
            for (block, _), data in completed(_compute, ours(waiting), pool or get_pool()):
                store.save(block, data)
                claims.pop(block).release()
                note(block, data, True)
            waiting = [block for block in waiting if block not in data_by_block]
            if waiting and late():
                break
            if waiting:
                time.sleep(PATIENCE)
    finally:
        for claim in claims.values():
            claim.release()
    return data_by_block


def _compute(wanted: tuple[Block, str]) -> BlockData:
    """The block's data. A worker in which the block has another key than in the process that asked refuses."""
    block, key = wanted
    if dataclasses.replace(block).key != key:
        raise EvenrollError(f"{block.work}: a worker has other sources or libraries than this process: install the same")
    return compute(block)
