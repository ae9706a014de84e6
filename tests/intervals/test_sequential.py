"""Looking again and again: what the looks spend, that no more is spent than is allowed, and exact tests of success."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from evenroll.intervals.independent import Interval
from evenroll.intervals.sequential import (
    KEPT,
    chance_to_decide,
    fixed_size,
    for_rare_failures,
    levels,
    looks,
    spent,
)
from evenroll.intervals.skewed import for_skewness, second_order


def test_when_to_look() -> None:
    def eights(n: int) -> int:
        return -(-n // 8) * 8

    assert looks(5) == (5,)
    assert looks(22) == (*range(5, 22), 22)
    assert looks(200)[:16] == tuple(range(5, 21))
    assert looks(200)[-1] == 200
    assert all(b / a < 1.11 for a, b in itertools.pairwise(looks(1000)[15:]))
    assert looks(40, eights) == (8, 16, 24, 32, 40)
    assert looks(20, eights) == (8, 16, 20)
    assert len(looks(200, growth=1.15)) < len(looks(200)) / 2


def test_what_may_be_spent_grows_up_to_nine_tenths() -> None:
    for most in (5, 50, 1000):
        whole = [spent(n, most, 0.05) for n in looks(most)]
        assert whole == sorted(whole)
        assert whole[-1] == pytest.approx(KEPT * 0.05)
        assert whole[0] > 0.0


def test_a_single_look_is_an_ordinary_test() -> None:
    assert levels((30,), 0.05)[0] == pytest.approx(KEPT * 0.05, rel=1e-6)


def test_two_looks_against_the_bivariate_normal_distribution() -> None:
    """P(leave at the first or at the second) by an independent formula."""
    when = (10, 30)
    first, second = levels(when, 0.05)
    c1, c2 = (-special.ndtri(level / 2) for level in (first, second))
    together = stats.multivariate_normal([0, 0], [[1, math.sqrt(1 / 3)], [math.sqrt(1 / 3), 1]])
    inside = together.cdf([c1, c2]) - together.cdf([-c1, c2]) - together.cdf([c1, -c2]) + together.cdf([-c1, -c2])
    assert first == pytest.approx(spent(10, 30, 0.05), rel=1e-6)
    assert 1.0 - inside == pytest.approx(KEPT * 0.05, rel=2e-3)


@pytest.mark.statistical
def test_looking_after_every_pair_misleads_no_more_often_than_allowed(base_seed: int) -> None:
    """20,000 runs of normal differences with mean 0: all looks together may fail in 4.5 % (known spread), and fail in about
    5 % when the spread is estimated. P(false) ≤ 1e-4: 3.9 standard errors are 0.0057 and 0.006. Catches levels that are all
    a quarter too large (5.5 %), and an ordinary 95 % interval at every look, which fails in 30 %."""
    when = looks(100)
    rng = np.random.default_rng(base_seed)
    limit = np.array(levels(when, 0.05))
    sums = np.cumsum(rng.normal(size=(20_000, 100)), axis=1)
    at = np.array(when)
    z = np.abs(sums[:, at - 1]) / np.sqrt(at)
    known = float((2 * special.ndtr(-z) < limit).any(axis=1).mean())
    assert abs(known - 0.045) < 0.0057
    values = np.diff(sums, axis=1, prepend=0.0)
    squares = np.cumsum(np.square(values), axis=1)[:, at - 1]
    spread = np.sqrt((squares - np.square(sums[:, at - 1]) / at) / (at - 1))
    t = np.abs(sums[:, at - 1]) / np.sqrt(at) / spread
    estimated = float((2 * stats.t.sf(t, at - 1) < limit).any(axis=1).mean())
    assert estimated < 0.05 + 0.006


def test_looks_are_wider_towards_the_long_tail() -> None:
    made = Interval(1.0, 4.0, 0.95, "t", skewness=-2.0)
    wider = for_rare_failures(made, 2.0, 16)  # 16 · 4 / 16 = 4 times as much in addition
    assert (wider.low, wider.high) == (-3.0, 4.0)
    other = for_rare_failures(replace(made, skewness=2.0), 2.0, 16)
    assert (other.low, other.high) == (1.0, 12.0)
    once = for_skewness(made, 2.0, 16, second_order(0.95))  # as intervals of balanced data come
    again = for_rare_failures(once, 2.0, 16)
    assert (again.low, again.high) == (pytest.approx(-3.0), 4.0)  # and no more than that
    sure = for_skewness(made, 2.0, 16, second_order(0.9999))
    assert for_rare_failures(sure, 2.0, 16) == sure  # one so sure is widened by more than 16 already


def test_the_chance_of_a_verdict() -> None:
    assert chance_to_decide(0.0, 1.0, 50, 100, (0.0, 0.0)) > 0.01
    assert chance_to_decide(3.0, 1.0, 50, 100, (0.0, 0.0)) > 0.9
    assert chance_to_decide(0.0, 1.0, 50, 100, (-9.0, 9.0)) < 1e-6
    assert chance_to_decide(2.0, 0.0, 50, 100, (0.0, 0.0)) == 1.0
    assert chance_to_decide(0.0, 0.0, 50, 100, (0.0, 0.0)) == 0.0


def test_what_a_fixed_number_of_pairs_would_be() -> None:
    """The textbook's numbers for the paired t test with 80 % power: 34 pairs for half a standard deviation."""
    assert [fixed_size(gap, 1.0, 0.95) for gap in (0.25, 0.5, 1.0)] == [128, 34, 10]
    assert fixed_size(0.0, 1.0, 0.95) is None
    assert fixed_size(1.0, 0.0, 0.95) is None
    assert fixed_size(1e-9, 1.0, 0.95) is None
    assert fixed_size(0.01, 1.0, 0.95) == pytest.approx(78_489, rel=0.01)
