"""Seeds of starts. Within a run no two of them are equal, so that no start is met twice by accident.

A run numbers its starts: 0, 1, 2 and so on for the episodes of a single environment, and for the lanes of a vector
environment at its first reset. The seed of a start is a number of 32 bits, which every environment takes. The first EARLY
seeds are random ones, where one that was there before is drawn again. From then on a permutation of all numbers of 32 bits
gives the seeds, so that any of them is known without those before it.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np

EARLY = 8192  # starts whose seeds are drawn one after the other, a few milliseconds for all of them; a choice
BLOCK = 256  # seeds that are drawn at once; a choice
LATER_LANES = 1 << 31  # the first number of the starts of lanes that are reset again
BITS, MASK = 16, 0xFFFF  # a number of 32 bits as two halves
ROUNDS = 8  # of the permutation; four make it hard to tell from a random one (Luby and Rackoff, 1988)


class _Early:
    """The first seeds of a run, drawn as they are needed, and the place of each."""

    def __init__(self, seed: int) -> None:
        self.seed, self.seeds = seed, list[int]()
        self.drawing = threading.Lock()  # workers that are threads share a run's seeds
        self.places: dict[int, int] = {}
        self.keys = [int(key) for key in np.random.SeedSequence((seed, 1, 0, 0, 1)).generate_state(ROUNDS, np.uint32)]

    def upto(self, number: int) -> None:
        """Draw the seeds up to this number, which is below EARLY, and perhaps some more, but never EARLY or later ones."""
        if number < len(self.seeds):
            return
        with self.drawing:
            first = len(self.seeds)
            end = min(max(number + 1, first + BLOCK), EARLY)
            for place, found in enumerate(_hashes(self.seed, first, end - first), first):
                again = 0
                while found in self.places:
                    again += 1
                    found = _hash(self.seed, 1, place, 0, again)
                self.places[found] = place
                self.seeds.append(found)

    def permuted(self, number: int) -> int:
        """Another number of 32 bits for each number of 32 bits (a Feistel network)."""
        left, right = number >> BITS, number & MASK
        for key in self.keys:
            mixed = ((right ^ (key & MASK)) * 0x9E3779B1 + key) & 0xFFFFFFFF
            mixed = ((mixed ^ (mixed >> 15)) * 0x85EBCA6B) & 0xFFFFFFFF
            left, right = right, left ^ (mixed >> BITS)
        return left << BITS | right


def _hash(*place: int) -> int:
    return int(np.random.SeedSequence(place).generate_state(1, np.uint32)[0])


def _hashes(seed: int, first: int, count: int) -> list[int]:
    """_hash(seed, 1, n) for n = first … first + count − 1, below 2³², all at once.

    It is what NumPy's SeedSequence does, whose numbers are promised to stay (O'Neill's `seed_seq_fe`), with an array where
    the last word is. One of its own for each n takes 10 µs.
    """
    low = np.uint32(0xFFFFFFFF)
    words = [np.uint32(seed >> shift & int(low)) for shift in range(0, max(seed.bit_length(), 1), 32)]
    entropy: list[Any] = [*words, np.uint32(1), np.arange(first, first + count, dtype=np.uint32)]
    constant = 0x43B0D7E5

    def hashed(value: Any) -> Any:
        nonlocal constant
        value = value ^ np.uint32(constant)
        constant = constant * 0x931E8875 & int(low)
        value = value * np.uint32(constant)
        return value ^ value >> np.uint32(16)

    def mixed(x: Any, y: Any) -> Any:
        found = np.uint32(0xCA01F9DD) * x - np.uint32(0x4973F715) * y
        return found ^ found >> np.uint32(16)

    with np.errstate(over="ignore"):  # words of 32 bits are meant to overflow
        pool = [hashed(entropy[i] if i < len(entropy) else np.uint32(0)) for i in range(4)]
        for source in range(4):
            for target in range(4):
                if source != target:
                    pool[target] = mixed(pool[target], hashed(pool[source]))
        for word in entropy[4:]:
            pool = [mixed(each, hashed(word)) for each in pool]
        found = (pool[0] ^ np.uint32(0x8B51F9DD)) * np.uint32(0x8B51F9DD * 0x58F38DED & int(low))
        return (found ^ found >> np.uint32(16)).tolist()


_early = functools.lru_cache(maxsize=16)(_Early)


def start_seed(seed: int, number: int) -> int:
    """The environment's seed for start `number` of a run, from which an episode of a single environment can be repeated.

    Numbers below 2³² have different seeds. Where the permutation gives one of the early seeds, it is asked again with a
    number that no start has: the last number of 32 bits minus the early seed's place.
    """
    early = _early(seed)
    if number < EARLY:
        early.upto(number)
        return early.seeds[number]
    early.upto(EARLY - 1)
    found = early.permuted(number % 2**32)
    while found in early.places:
        found = early.permuted(2**32 - 1 - early.places[found])
    return found


def lane_number(lane: int, lanes: int, already: int) -> int:
    """The number of a lane's start in a vector environment of that many lanes that is reset as a whole.

    already  starts that were used before. Looking again, or starting from initial data, must not meet them a second time.
    """
    return lane if already == 0 else LATER_LANES + (already * lanes + lane) % (LATER_LANES - EARLY)
