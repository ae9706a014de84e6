"""Which of a sampler's numbers are sums over steps.

Sums of several blocks of episodes can be added, in whatever place each block was collected (collection/merging.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evenroll.engine.pieces import Piece


def _none() -> np.ndarray:
    return np.zeros(0, dtype=np.int64)


def _nothing() -> slice:
    return slice(0, 0)


@dataclass(frozen=True, eq=False)
class Sums:
    """The places of a sampler's sums, and of what it owes.

    vectors       the entries of its vectors that are sums over steps
    memory        the entries of its memory that are sums over steps
    owed_vectors  the entries of its vectors that the tilt of the next action is linear in: the imbalance, and what follows
                  from it. Where several blocks run at the same time, each is told of a share (`Sampler.told`).
    owed_memory   the same for its memory
    settle        a piece (END_EPISODE) that computes what follows from the sums anew, after they were added up
    """

    vectors: slice = field(default_factory=_nothing)
    memory: np.ndarray = field(default_factory=_none)
    owed_vectors: slice = field(default_factory=_nothing)
    owed_memory: np.ndarray = field(default_factory=_none)
    settle: Piece | None = None
