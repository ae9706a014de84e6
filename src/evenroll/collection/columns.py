"""A record that grows row by row."""

from __future__ import annotations

from typing import Any

import numpy as np


class Columns:
    """Arrays that grow together, row by row. `kinds` says how wide each is, and its type."""

    def __init__(self, kinds: dict[str, tuple[int, Any]]) -> None:
        self.rows, self.room = 0, 1024
        self.arrays = {name: np.zeros((self.room, width), dtype) for name, (width, dtype) in kinds.items()}

    def more(self, n: int) -> int:
        """Make room for n more rows. Returns the number of the first of them."""
        first = self.rows
        if first + n > self.room:
            self.room = max(2 * self.room, first + n)
            for name, old in self.arrays.items():
                self.arrays[name] = np.zeros((self.room, old.shape[1]), old.dtype)
                self.arrays[name][:first] = old[:first]
        self.rows += n
        return first

    def replace(self, arrays: dict[str, np.ndarray]) -> None:
        """Put these arrays, all of one length, in the place of everything recorded."""
        self.rows = self.room = len(next(iter(arrays.values())))
        self.arrays = arrays

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name][: self.rows]
