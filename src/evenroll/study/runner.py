"""Gets blocks: each is read from the store, or computed and written once."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Hashable, Iterable, Iterator

from evenroll.errors import EvenrollError
from evenroll.executors.pool import Pool, completed, get_pool
from evenroll.study.blocks import Block, BlockData, compute_together
from evenroll.study.store import Claim, Store

PATIENCE = 0.2  # seconds between looks at a block that another process is computing; a choice


def ensure(
    store: Store,
    blocks: Iterable[Block],
    *,
    pool: Pool | None = None,
    done: Callable[[Block, bool], None] | None = None,
    until: float | None = None,
    later: Iterable[Block] = (),
    ahead: Callable[[Block], None] | None = None,
) -> dict[Block, BlockData]:
    """Every block, read from the store if it is there and computed otherwise. `done(block, computed)` is called after each.

    later  blocks that will be asked for later. Where one measures the same data as a block that is computed now, it is
           computed with it and written to the store, so that the data is collected once; `ahead(block)` is called after it.

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

    def free(block: Block, there: Callable[[Block], bool]) -> bool:
        """Claim a block that is not in the store and that no other process is computing."""
        claim = store.claim(block)
        if claim is None:
            return False
        if there(block):  # another process has finished it meanwhile
            claim.release()
            return False
        claims[block] = claim
        return True

    def ours(waiting: Iterable[Block]) -> Iterator[tuple[tuple[Block, str], ...]]:
        """The blocks to compute here and now, each with those that measure the same data."""
        for block in waiting:
            if late():
                return
            if block not in claims and block not in data_by_block and free(block, there):
                asked = [b for b in alike.pop(block.data, ()) if b != block and b not in data_by_block]
                others = [b for b in asked if b not in claims and free(b, there if b in wanted else stored)]
                yield tuple((b, b.key) for b in (block, *others))

    def stored(block: Block) -> bool:
        return store.load(block) is not None

    wanted = dict.fromkeys(blocks)
    alike: dict[Hashable, list[Block]] = {}
    for block in dict.fromkeys((*wanted, *later)):
        alike.setdefault(block.data, []).append(block)
    waiting = [block for block in wanted if not there(block)]
    try:
        while waiting:
            with contextlib.closing(completed(_compute, ours(waiting), pool or get_pool())) as finished:
                for together, results in finished:
                    for (block, _), data in zip(together, results, strict=True):
                        store.save(block, data)
                        claims.pop(block).release()
                        if block in wanted:
                            note(block, data, True)
                        elif ahead is not None:
                            ahead(block)
            waiting = [block for block in waiting if block not in data_by_block]
            if waiting and late():
                break
            if waiting:
                time.sleep(PATIENCE)
    finally:
        for claim in claims.values():
            claim.release()
    return data_by_block


def _compute(wanted: tuple[tuple[Block, str], ...]) -> tuple[BlockData, ...]:
    """The blocks' data. A worker in which a block has another key than in the process that asked refuses."""
    for block, key in wanted:
        if dataclasses.replace(block).key != key:
            raise EvenrollError(f"{block.work}: a worker has other sources or libraries than this process: install the same")
    return compute_together([block for block, _ in wanted])
