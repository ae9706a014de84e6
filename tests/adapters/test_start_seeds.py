"""Seeds of starts: within a run no two are equal, and the first are those of earlier versions."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from evenroll.adapters import start_seeds
from evenroll.adapters.start_seeds import EARLY, LATER_LANES, lane_number, start_seed


def hashed(seed: int, number: int) -> int:
    return int(np.random.SeedSequence((seed, 1, number)).generate_state(1, np.uint32)[0])


@pytest.mark.parametrize("seed", [0, 3, 2**32 - 1, 2**32, 2**63 - 1, 2**70, 2**128 + 5])
def test_the_first_seeds_are_what_they_were(seed: int) -> None:
    """Those of NumPy, whether they are drawn one by one or many at once, for a seed of any number of words."""
    assert [start_seed(seed, i) for i in range(600)] == [hashed(seed, i) for i in range(600)]
    assert start_seed(seed, EARLY - 1) == hashed(seed, EARLY - 1)


def test_a_seed_that_was_there_before_is_drawn_again() -> None:
    """With seed 885 the hashes of starts 104 and 349 are equal."""
    assert hashed(885, 104) == hashed(885, 349) == start_seed(885, 104)
    assert len({start_seed(885, i) for i in range(350)}) == 350
    assert start_seed(885, 350) == hashed(885, 350)


@pytest.mark.parametrize("asked", [[0], [300, 8100], [8191], [5, 261, 8000, 8190]])
def test_the_early_seeds_do_not_depend_on_what_was_asked_for_first(asked: list[int]) -> None:
    early = start_seeds._Early(885)
    for number in asked:
        early.upto(number)
    early.upto(EARLY - 1)
    assert len(early.seeds) == len(early.places) == EARLY
    assert [early.places[seed] for seed in early.seeds] == list(range(EARLY))
    assert early.seeds[::97] == [start_seed(885, number) for number in range(0, EARLY, 97)]


def test_threads_share_the_seeds_of_a_run() -> None:
    """Two that draw at the same time would otherwise give one start two seeds."""
    alone = start_seeds._Early(11)
    alone.upto(EARLY - 1)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            early = start_seeds._Early(11)
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(early.upto, range(0, EARLY, 63)))
            early.upto(EARLY - 1)
            assert early.seeds == alone.seeds
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("seed", [0, 885, 2**70])
def test_no_two_starts_of_a_run_have_one_seed(seed: int) -> None:
    """Of 60,000 hashes of 32 bits about 0.4 pairs are equal, of episodes and lanes together."""
    numbers = [*range(40_000), *(lane_number(lane, 8, already) for already in range(1, 2501) for lane in range(8))]
    seeds = [start_seed(seed, number) for number in numbers]
    assert len(set(seeds)) == len(seeds) == 60_000
    assert 0 <= min(seeds) < max(seeds) < 2**32


def test_the_permutation_is_one() -> None:
    """Each half of it can be undone, so it cannot give one number twice; a sample, and neighbours are far apart."""
    early = start_seeds._Early(5)
    found = np.array([early.permuted(n) for n in range(1 << 17)])
    assert len(np.unique(found)) == len(found)
    assert np.median(np.abs(np.diff(found))) > 2**29
    assert abs(found.mean() / 2**31 - 1.0) < 0.01


def test_an_early_seed_does_not_come_again(monkeypatch) -> None:
    """Where the permutation gives an early seed, another takes its place, which no other start has."""
    early = start_seeds._Early(7)
    early.upto(EARLY - 1)
    plain = early.permuted
    monkeypatch.setattr(early, "permuted", lambda n: early.seeds[5] if n == 123_456 else plain(n))
    monkeypatch.setattr(start_seeds, "_early", lambda seed: early)
    assert start_seed(7, 123_456) == plain(2**32 - 6)


def test_lanes_that_are_reset_again_have_numbers_of_their_own() -> None:
    assert [lane_number(lane, 4, 0) for lane in range(4)] == [0, 1, 2, 3]
    numbers = {lane_number(lane, 4, already) for already in range(1, 1000) for lane in range(4)}
    assert len(numbers) == 999 * 4
    assert min(numbers) >= LATER_LANES
    assert max(numbers) < 2**32 - EARLY
