"""Randomness. Every stream is a xoshiro256++ state (four uint64), and a tree of seeds says which stream is whose."""

from __future__ import annotations

import numpy as np
from numba import njit

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Floats
from evenroll.text.specs import whole_number


@helper
def _rotate(x: np.uint64, k: int) -> np.uint64:
    return (x << np.uint64(k)) | (x >> np.uint64(64 - k))


@njit  # no helper, because Python calls it, too
def uniform(state: Floats) -> float:
    """The next number of the stream: 52 random bits, in the open interval (0, 1)."""
    result = _rotate(state[0] + state[3], 23) + state[0]
    t = state[1] << np.uint64(17)
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= t
    state[3] = _rotate(state[3], 45)
    return (np.float64(result >> np.uint64(12)) + 0.5) * (1.0 / 4503599627370496.0)


def stream(*path: int) -> np.ndarray:
    """The random stream at a place in the seed tree. The same integers give the same numbers, whoever asks.

    The path's length goes in front, because NumPy takes (1, 2) and (1, 2, 0) for the same seed.
    """
    numbers = [whole_number("a seed", number, 0) for number in path]  # NumPy itself crashes on a matrix
    return np.random.SeedSequence((len(path), *numbers)).generate_state(4, np.uint64)
