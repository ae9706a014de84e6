"""Which of two policies succeeds more often, looked at again and again while pairs of episodes come in.

Only pairs in which one of the two succeeds tell. After n pairs let there be w wins and l losses. If both policies succeed
equally often, a pair is won with probability q/2, lost with q/2, and tells nothing otherwise, whatever the two have in
common: shared starts only make q small. So the walk w − l depends on one unknown number, q, and how often verdicts are wrong
can be computed for every q. The looks may spend α(n) up to n pairs (intervals/sequential.py). At each of them the walks that
speak most against equal rates, by the likelihood ratio of w to l, are taken for a verdict, as many as

    P_q(a verdict within n pairs) ≤ α(n)   for every q

allows. This is exact, like the conditional test that asks only how many of w + l moves were wins, and says more, because
what few moves leave unused is not lost (Suissa and Shuster 1991 have it for a single look).
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Protocol

import numpy as np

from evenroll.intervals.sequential import KEPT, spent

MOST_EXACT = 300  # pairs up to which all q are looked at, which takes about 3 s there; a choice
# The values of q; between them the probability of a verdict differs by less than the share of α that is kept back.
RATES = np.array([
    0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75,
    0.8, 0.85, 0.9, 0.95, 1.0,
])  # fmt: skip
BETWEEN = 0.99  # the share of α that is spent on them


class SuccessTest(Protocol):
    """A test of equal success rates. Looks go forward in n."""

    def look(self, n: int, wins: int, losses: int) -> int:
        """1 if the first is shown to succeed more often, −1 if the second is, 0 if neither is."""


def success_test(when: tuple[int, ...], alpha: float) -> SuccessTest:
    """The test for looks after these numbers of pairs, which is wrong in at most a share α of all runs."""
    return PairTest(when, alpha) if when[-1] <= MOST_EXACT else SignTest(when[-1], alpha)


class PairTest:
    """The test above. `enough[n][m]` is how far the wins of m moves must be from the losses for a verdict after n pairs."""

    def __init__(self, when: tuple[int, ...], alpha: float) -> None:
        self.enough = boundaries(when, alpha)

    def look(self, n: int, wins: int, losses: int) -> int:
        return int(np.sign(wins - losses)) if abs(wins - losses) >= self.enough[n][wins + losses] else 0


@functools.lru_cache(maxsize=16)
def boundaries(when: tuple[int, ...], alpha: float) -> dict[int, np.ndarray]:
    """For each look, [n + 1] the smallest |w − l| among m moves that is a verdict; n + 1 where none is.

    `chance[q, m, d]` is how likely a walk without a verdict has made m moves and stands at |w − l| = d. Farther than `reach`
    no walk comes without one; the last place stands for all beyond, and every look takes it for a verdict.
    """
    from scipy import special

    most = when[-1]
    far, longest = 1.0 - float(special.ndtri(alpha / 1000)), max(b - a for a, b in itertools.pairwise((0, *when)))
    reach = min(most, int(far * math.sqrt(most)) + longest + 1)
    q = RATES[:, None, None]
    chance = np.zeros((len(RATES), most + 1, reach + 1))
    chance[:, 0, 0] = 1.0
    against = _against(most, reach)
    used, found, before = np.zeros(len(RATES)), dict[int, np.ndarray](), 0
    for n in when:
        for i in range(before, n):
            moved = q * chance[:, : i + 1]
            chance[:, : i + 1] *= 1.0 - q
            ahead = chance[:, 1 : i + 2]
            ahead[:, :, 1:] += 0.5 * moved[:, :, :-1]
            ahead[:, :, 1] += 0.5 * moved[:, :, 0]  # from 0 either step leads to 1
            ahead[:, :, :-1] += 0.5 * moved[:, :, 1:]
            ahead[:, :, -1] += 0.5 * moved[:, :, -1]
        here = chance[:, : n + 1]
        limit = _limit(against[: n + 1], here, BETWEEN * spent(n, most, alpha) / KEPT - used)
        verdict = against[: n + 1] >= limit
        used += here[:, verdict].sum(axis=1)
        here[:, verdict] = 0.0
        found[n] = np.where(verdict.any(axis=1), verdict.argmax(axis=1), n + 1)
        before = n
    return found


def _against(most: int, reach: int) -> np.ndarray:
    """log of the likelihood ratio against equal rates, [most + 1, reach + 1], for m moves and |w − l| = d ≤ m; else −1."""
    m, d = np.arange(most + 1)[:, None], np.arange(reach + 1)[None]
    more, less = (m + d) / 2.0, np.maximum(m - d, 0) / 2.0

    def times_log(x: np.ndarray) -> np.ndarray:
        return x * np.log(np.maximum(x, 1e-300))

    ratio = times_log(more) + times_log(less) - 2.0 * times_log(m / 2.0)
    return np.where((d <= m) & (d > 0), ratio, -1.0)


def _limit(against: np.ndarray, chance: np.ndarray, allowed: np.ndarray) -> float:
    """The smallest ratio such that walks with no smaller one are as rare as is allowed for every q; inf if none are."""
    values, place = np.unique(against.ravel(), return_inverse=True)
    of_value = np.array([np.bincount(place, row, minlength=len(values)) for row in chance.reshape(len(chance), -1)])
    beyond = of_value[:, ::-1].cumsum(axis=1)[:, ::-1]  # P(a ratio of at least this)
    rare = (beyond <= allowed[:, None]).all(axis=0) & (values > 0.0)
    return float(values[rare.argmax()]) if rare.any() else math.inf


class SignTest:
    """The conditional test, for very many pairs: wins − losses is a fair walk, given in which pairs it moves.

    The distribution of walks that have not left is kept from look to look, and at each look the walk may leave where that
    costs no more than α(n). What is not used at one look, because a walk takes whole steps, is there for the next.
    """

    def __init__(self, most: int, alpha: float) -> None:
        self.most, self.alpha, self.used = most, alpha, 0.0
        self.moves, self.chance = 0, np.ones(1)  # chance[moves + s] of a walk that stands at s and has not left

    def look(self, n: int, wins: int, losses: int) -> int:
        for _ in range(wins + losses - self.moves):
            self.chance = np.convolve(self.chance, (0.5, 0.0, 0.5))
        self.moves = wins + losses
        distance = np.abs(np.arange(-self.moves, self.moves + 1))
        allowed = spent(n, self.most, self.alpha) / KEPT - self.used  # exact, so nothing is kept back
        far = np.bincount(distance, self.chance)[::-1].cumsum()[::-1]  # P(|s| ≥ 0), P(|s| ≥ 1), …
        enough = int(np.searchsorted(-far, -allowed))  # the smallest distance that is rare enough
        self.used += float(far[enough]) if enough < len(far) else 0.0
        self.chance = np.where(distance >= enough, 0.0, self.chance)
        return int(np.sign(wins - losses)) if abs(wins - losses) >= enough else 0


def paired_shares(wins: int, losses: int, n: int, level: float) -> tuple[float, float]:
    """The interval of the difference of two success rates, from n pairs (Tango 1998): those d that a score test at this
    two-sided level does not reject."""
    from scipy import special

    z = -float(special.ndtri(level / 2))

    def away(d: float) -> float:
        """The score statistic of d: how far the pairs are above it, in standard errors under it."""
        b = -wins - losses + (2 * n - wins + losses) * d
        rate = (math.sqrt(max(b * b + 8 * n * losses * d * (1.0 - d), 0.0)) - b) / (
            4 * n
        )  # of pairs that only the second wins
        error = math.sqrt(max(n * (2.0 * rate + d * (1.0 - d)), 1e-12))
        return (wins - losses - n * d) / error

    found = (wins - losses) / n
    ends = []
    for edge, sign in ((-1.0, 1.0), (1.0, -1.0)):
        inner, outer = found, edge
        for _ in range(60):
            middle = (inner + outer) / 2
            inner, outer = (middle, outer) if sign * away(middle) <= z else (inner, middle)
        ends.append(outer)
    return ends[0], ends[1]
