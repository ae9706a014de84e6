"""Success and failure in pairs: verdicts are as rarely wrong as they promise, whatever the rates, and intervals hold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from evenroll.intervals.sequential import FIRST, looks
from evenroll.intervals.success_pairs import MOST_EXACT, PairTest, SignTest, paired_shares, success_test


def test_no_rate_makes_verdicts_of_equal_policies_more_frequent_than_allowed() -> None:
    """All 3¹² runs of 12 pairs are enumerated (won, lost, neither), and weighed for 200 values of q."""
    most, alpha = 12, 0.1
    test = PairTest(looks(most), alpha)
    runs = np.array(list(itertools.product((1, -1, 0), repeat=most)), dtype=np.int8)
    wins, losses = (runs > 0).cumsum(axis=1), (runs < 0).cumsum(axis=1)
    told = np.zeros(len(runs), dtype=bool)
    for n in looks(most):
        moves, ahead = wins[:, n - 1] + losses[:, n - 1], np.abs(wins[:, n - 1] - losses[:, n - 1])
        told |= ahead >= test.enough[n][moves]
    moves = wins[told, -1] + losses[told, -1]
    wrong = [float(((q / 2) ** moves * (1 - q) ** (most - moves)).sum()) for q in np.linspace(0.005, 1.0, 200)]
    assert max(wrong) <= alpha
    assert max(wrong) > 0.85 * alpha  # it is not merely silent


@pytest.mark.parametrize("most", [30, 120])
def test_no_rate_does_so_in_longer_runs_either(most: int) -> None:
    """By another recursion, over wins and losses, for values of q between those that the test was made with."""
    when = looks(most)
    test = PairTest(when, 0.05)
    worst = 0.0
    for q in (0.05, 0.15, 0.37, 0.52, 0.58, 0.67, 0.78, 0.93, 0.99):
        going, wrong = np.zeros((most + 2, most + 2)), 0.0  # [wins, losses] of runs without a verdict
        going[0, 0] = 1.0
        for n in range(1, most + 1):
            moved = np.zeros_like(going)
            moved[1:] += q / 2 * going[:-1]
            moved[:, 1:] += q / 2 * going[:, :-1]
            going = moved + (1 - q) * going
            for w, x in itertools.product(range(n + 1), repeat=2) if n in when else ():
                if w + x <= n and going[w, x] > 0.0 and test.look(n, w, x):
                    assert test.look(n, w, x) == np.sign(w - x)
                    wrong += going[w, x]
                    going[w, x] = 0.0
        worst = max(worst, wrong)
    assert 0.045 < worst <= 0.05


def test_looks_may_come_in_groups() -> None:
    """Eight lanes: a verdict of the first look that eight pairs allow."""
    test = PairTest((8, 16, 24), 0.05)
    assert test.look(8, 8, 0) == 1
    assert test.look(8, 0, 8) == -1
    assert test.look(8, 4, 3) == 0
    assert test.look(24, 0, 0) == 0


def test_very_many_pairs_are_tested_given_their_moves() -> None:
    assert isinstance(success_test(looks(MOST_EXACT), 0.05), PairTest)
    assert isinstance(success_test(looks(MOST_EXACT + 1), 0.05), SignTest)


@pytest.mark.parametrize("moving", ["always", "often", "seldom"])
def test_the_sign_test_is_exact(moving: str) -> None:
    """All walks of 14 pairs are enumerated, given in which pairs one policy alone succeeds."""
    most = 14
    moves = {"always": [True] * most, "often": [i % 3 != 1 for i in range(most)], "seldom": [i in (2, 5, 6, 13) for i in
             range(most)]}[moving]  # fmt: skip
    places = [i for i, one in enumerate(moves) if one]
    wrong = total = 0
    for signs in itertools.product((1, -1), repeat=len(places)):
        test, walk = SignTest(most, 0.1), np.zeros(most, dtype=int)
        walk[places] = signs
        wins, losses = np.cumsum(walk > 0), np.cumsum(walk < 0)
        total += 1
        for n in range(FIRST, most + 1):
            verdict = test.look(n, int(wins[n - 1]), int(losses[n - 1]))
            if verdict:
                assert verdict == np.sign(wins[n - 1] - losses[n - 1])
                wrong += 1
                break
    assert wrong / total <= 0.1
    if moving == "always":
        assert wrong / total > 0.06  # it is not merely silent
    walk = np.zeros(most, dtype=int)
    walk[places] = [1, -1] * (len(places) // 2) + [1] * (len(places) % 2)
    test = SignTest(most, 0.1)
    for n in range(FIRST, most + 1):  # this walk never leaves, and what all looks have spent is what was enumerated
        assert test.look(n, int((walk[:n] > 0).sum()), int((walk[:n] < 0).sum())) == 0
    assert test.used == pytest.approx(wrong / total, abs=1e-12)


def test_the_interval_of_a_difference_of_rates() -> None:
    """Ends are where the score test is at its limit; 44 pairs with one discordant."""
    low, high = paired_shares(0, 1, 44, 0.05)
    assert low == pytest.approx(-0.118, abs=0.002)
    assert high == pytest.approx(0.061, abs=0.002)
    assert paired_shares(8, 2, 20, 0.05) == pytest.approx(tuple(-x for x in reversed(paired_shares(2, 8, 20, 0.05))))
    low, high = paired_shares(0, 0, 20, 0.05)
    assert low == pytest.approx(-high)
    assert paired_shares(5, 0, 5, 0.05)[1] == 1.0
    wide = paired_shares(8, 2, 20, 0.005)
    assert wide[0] < paired_shares(8, 2, 20, 0.05)[0] < 0.3 < paired_shares(8, 2, 20, 0.05)[1] < wide[1]


@pytest.mark.statistical
@pytest.mark.parametrize("rates", [(0.05, 0.02), (0.5, 0.3), (0.98, 0.9)])
def test_the_interval_of_a_difference_of_rates_covers(rates: tuple[float, float], base_seed: int) -> None:
    """4,000 times 30 independent pairs: a 95 % interval holds in at least 94 %, less 4 standard errors of 0.0038, thrice.
    P(false) ≤ 1e-4. Catches one that is a fifth too narrow (88 %)."""
    rng = np.random.default_rng(base_seed)
    a, b = (rng.random((4000, 30)) < rate for rate in rates)
    wins, losses = (a & ~b).sum(axis=1), (b & ~a).sum(axis=1)
    held = 0
    for (w, x), times in zip(*np.unique(np.stack([wins, losses], 1), axis=0, return_counts=True), strict=True):
        low, high = paired_shares(int(w), int(x), 30, 0.05)
        held += int(times) * (low <= rates[0] - rates[1] <= high)
    assert held / 4000 > 0.94 - 4 * 0.0038
