"""Our test of success rates against STEP's on at most 50 pairs of episodes: power and mean pairs, computed exactly.

    python -m tools.step_comparison
    python -m tools.step_comparison --alpha 0.1         # 5 % on each side, as STEP's authors count

STEP (Snyder et al. 2025, arXiv 2503.10966) tests two success rates p₁ and p₀ after every pair of episodes, from how often
each policy has succeeded so far, (s₁, s₀). It takes the two episodes of a pair to be independent. By n pairs of at most N it
may have been wrong with probability α n/N, for every p₁ = p₀ = p (the authors' default). The test that stands for it here is
written from these formulas and not from their program. After each pair it takes those states for a verdict that are together
the likeliest if the two rates are spread evenly over the unit square, among all sets that keep the promise. This is a linear
program. The chance of a state in it is

    N(s₁, s₀) p^(s₁ + s₀) (1 − p)^(2n − s₁ − s₀),

where N is the number of ways that lead there without a verdict. The same recipe is also applied to the numbers of pairs that
only the first wins, and only the second. Our test looks at these two, because then the promise holds whatever the episodes
of a pair have in common. With our budget in place of α n/N, the recipe shows what a better choice of states would gain.

All tests are two-sided and err in at most α of all runs, both sides together. Nothing is simulated: the distribution of the
counts is carried from pair to pair.

Shared starts: an episode succeeds if the difficulty of its start plus luck of its own, both normal, stays below a limit that
gives the policy its rate. `alike` is the correlation of these sums in a pair; 0 is independent.
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from evenroll.intervals.sequential import HOPELESS, KEPT, PATIENT, chance_to_decide, looks, spent
from evenroll.intervals.success_pairs import PairTest, success_test

RATES = (
    (0.5, 0.6), (0.8, 0.9), (0.9, 0.99), (0.5, 0.7), (0.1, 0.3), (0.8, 0.95), (0.5, 0.8), (0.5, 0.9), (0.3, 0.9), (0.1, 0.9),
)  # fmt: skip
ALIKE = (0.0, 0.3, 0.6, 0.9)
CONTROLS = 81  # values of p, or of the share of pairs that are won or lost, at which the recipe keeps its promise
FINE = np.linspace(0.0, 1.0, 1001)[1:-1]
BETWEEN = 0.999  # the share of α that the recipe spends there, so that the values between keep it, too; tested
NODES = 80  # of the integral over the difficulty of a start
MOST_TRIED = 100  # the largest limit that is tried for equal power


@dataclass(frozen=True)
class Rule:
    """When a test stops.

    moves    how (first count, second count) moves if both succeed, only the first does, only the second, neither
    verdict  [n][i, j] what is said after n pairs at the counts i, j: 1 that the first is better, −1 the second, 0 nothing
    ends     [n][i, j] whether the run is given up there without a verdict
    """

    moves: tuple[tuple[int, int], ...]
    verdict: tuple[np.ndarray, ...]
    ends: tuple[np.ndarray, ...]


PAIRS = ((0, 0), (1, 0), (0, 1), (0, 0))  # counts are pairs that only the first policy wins, or only the second
MARGINS = ((1, 1), (1, 0), (0, 1), (0, 0))  # counts are successes of the first policy, and of the second


def outcomes(first: np.ndarray, second: np.ndarray, alike: float) -> np.ndarray:
    """[cases, 4] how likely both succeed, only the first, only the second, neither."""
    at, weights = special.roots_hermitenorm(NODES)
    weights = weights / weights.sum()
    if alike == 0.0:
        both = first * second
    else:
        share = [special.ndtr((special.ndtri(p)[:, None] - math.sqrt(alike) * at) / math.sqrt(1.0 - alike)) for p in
                 (first, second)]  # fmt: skip
        both = (share[0] * share[1]) @ weights
    return np.stack([both, first - both, second - both, 1.0 - first - second + both], axis=1)


def exactly(rule: Rule, chances: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each row of outcomes: how likely is the verdict for the first, for the second, and the mean number of pairs."""
    going = np.ones((len(chances), 1, 1))  # the chance of each state without an end so far
    above, below, pairs = np.zeros(len(chances)), np.zeros(len(chances)), np.zeros(len(chances))
    for n in range(1, len(rule.verdict)):
        pairs += going.sum(axis=(1, 2))
        before, going = going, np.zeros((len(chances), n + 1, n + 1))
        for (i, j), chance in zip(rule.moves, chances.T, strict=True):
            going[:, i : i + n, j : j + n] += chance[:, None, None] * before
        verdict = rule.verdict[n]
        above += going[:, verdict > 0].sum(axis=1)
        below += going[:, verdict < 0].sum(axis=1)
        going[:, (verdict != 0) | rule.ends[n]] = 0.0
    return above, below, pairs


@functools.cache
def ours(most: int, alpha: float, gives_up: bool) -> Rule:
    """The test of `difference` for success rates, as evaluation/deciding.py runs it."""
    when = looks(most)
    test = success_test(when, alpha)
    assert isinstance(test, PairTest)
    verdict = [np.zeros((n + 1, n + 1), dtype=int) for n in range(most + 1)]
    for n in when:
        w, x = np.indices((n + 1, n + 1))
        enough = np.append(test.enough[n], np.full(n, n + 1))[w + x]  # more than n pairs cannot be won and lost
        verdict[n] = np.where(abs(w - x) >= enough, np.sign(w - x), 0)
    return _rule(PAIRS, verdict, when if gives_up else ())


@functools.cache
def step(most: int, alpha: float, gives_up: bool) -> Rule:
    """The test that stands for STEP. Giving up is not theirs: it is the rule of `ours`, with the spread of two means."""
    p = np.sin(np.linspace(0.0, math.pi / 4, CONTROLS + 1)[1:, None]) ** 2  # up to ½: the rest is symmetric

    def null(n: int, s: np.ndarray, r: np.ndarray) -> np.ndarray:
        return (s + r) * np.log(p) + (2 * n - s - r) * np.log1p(-p)

    def other(n: int, s: np.ndarray, r: np.ndarray) -> np.ndarray:
        return special.betaln(s + 1, n - s + 1) + special.betaln(r + 1, n - r + 1)

    def images(n: int, s: np.ndarray, r: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(s, r), (r, s), (n - s, n - r), (n - r, n - s)]  # success and failure exchanged, too

    return _rule(
        MARGINS, _recipe(MARGINS, null, other, images, lambda n: alpha * n / most, most), range(most) if gives_up else ()
    )


@functools.cache
def on_pairs(most: int, alpha: float, our_budget: bool) -> Rule:
    """STEP's recipe for (wins, losses), with its budget or ours. Their rates are spread evenly over all possible ones."""
    q = np.linspace(0.0, 1.0, CONTROLS + 1)[1:, None]  # the share of pairs that are won or lost

    def null(n: int, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        return (w + x) * np.log(q / 2) + special.xlogy(np.maximum(n - w - x, 0), 1.0 - q)

    def other(n: int, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        return special.gammaln(w + 1) + special.gammaln(x + 1) + special.gammaln(np.maximum(n - w - x, 0) + 1)

    def images(n: int, w: np.ndarray, x: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(w, x), (x, w)]

    def budget(n: int) -> float:
        return (spent(n, most, alpha) / KEPT if n in looks(most) else 0.0) if our_budget else alpha * n / most

    return _rule(PAIRS, _recipe(PAIRS, null, other, images, budget, most), ())


def _rule(moves: tuple[tuple[int, int], ...], verdict: Sequence[np.ndarray], gives_up: Sequence[int]) -> Rule:
    """The rule with these verdicts, [n][n + 1, n + 1], which may be given up after these numbers of pairs."""
    most = len(verdict) - 1
    ends = [np.zeros_like(told, dtype=bool) for told in verdict]
    for n in gives_up:
        if PATIENT * most <= n < most:
            i, j = np.indices((n + 1, n + 1))
            spread = (i + j - (i - j) ** 2 / n) / n if moves == PAIRS else (i * (n - i) + j * (n - j)) / n**2
            for place in np.ndindex(n + 1, n + 1):
                ends[n][place] = hopeless(int((i - j)[place]), float(spread[place]), n, most)
    return Rule(moves, tuple(verdict), tuple(ends))


@functools.cache
def hopeless(ahead: int, spread: float, n: int, most: int) -> bool:
    """Whether a verdict within `most` pairs is so unlikely that evaluation/deciding.py gives up."""
    error = math.sqrt(max(spread, 1.0 / n) / n)
    return chance_to_decide(ahead / n, error, n, most, (0.0, 0.0), lucky=1.0) <= HOPELESS


def _recipe(
    moves: tuple[tuple[int, int], ...], null: Callable[..., np.ndarray], other: Callable[..., np.ndarray],
    images: Callable[..., list[tuple[np.ndarray, np.ndarray]]], budget: Callable[[int], float], most: int,
) -> list[np.ndarray]:  # fmt: skip
    """For every n from 0 on, [n + 1, n + 1] what is said at these counts.

    null    [controls, states] log of the chance of one way to each state after n pairs, without a difference
    other   [states] the same if the rates are spread evenly, up to a constant
    images  the states that are taken together with each state, or not at all
    budget  how likely a wrong verdict within n pairs may be; after pairs with 0 there is no look
    """
    ways, used, found = np.ones((1, 1)), np.zeros(CONTROLS), [np.zeros((1, 1), dtype=int)]
    for n in range(1, most + 1):
        before, ways = ways, np.zeros((n + 1, n + 1))
        for i, j in dict.fromkeys(moves):  # where both succeed or neither does, wins and losses go one way
            ways[i : i + n, j : j + n] += before
        i, j = (count.ravel() for count in np.indices((n + 1, n + 1)))
        _, kind = np.unique(np.min([a * (n + 1) + b for a, b in images(n, i, j)], axis=0), return_inverse=True)
        with np.errstate(divide="ignore"):
            log_ways = np.where(i == j, -np.inf, np.log(ways.ravel()))  # where the two are level nothing can be said
        cost = np.array([np.bincount(kind, row) for row in np.exp(log_ways + null(n, i, j))])
        gain = np.bincount(kind, np.exp(log_ways + other(n, i, j) - other(n, np.array([n]), np.array([0]))))
        taken = _most_gain(gain, cost, np.maximum(BETWEEN * budget(n) - used, 0.0))
        used += cost[:, taken].sum(axis=1)
        told = np.where(taken[kind], np.sign(i - j), 0).reshape(n + 1, n + 1)
        ways = np.where(told != 0, 0.0, ways)
        found.append(told)
    return found


def _most_gain(gain: np.ndarray, cost: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Which to take so that the gain is (nearly) the largest and no cost [controls, kinds] is above what is allowed.

    The linear program takes a few in part. These are taken whole if that is allowed, those with the largest part first.
    """
    places = np.flatnonzero((gain > 0.0) & (cost <= allowed[:, None]).all(axis=0))
    taken = np.zeros(len(gain), dtype=bool)
    if not len(places) or not allowed.all():
        return taken
    scale = cost[:, places].max(axis=0)  # in these units the numbers of the program are of one size
    worth = gain[places] / scale
    solved = optimize.linprog(
        -worth / worth.max(), A_ub=cost[:, places] / scale / allowed[:, None], b_ub=np.ones(len(allowed)),
        bounds=np.stack([np.zeros(len(places)), scale], axis=1), method="highs",
    )  # fmt: skip
    if not solved.success:
        raise RuntimeError(f"the linear program was not solved: {solved.message}")
    left = allowed.copy()
    for k in np.lexsort((-worth, -np.round(solved.x / scale, 6))):
        if (cost[:, places[k]] <= left).all():
            taken[places[k]] = True
            left -= cost[:, places[k]]
    return taken


def wrong(rule: Rule, chances: np.ndarray) -> float:
    """How often the rule has a verdict where there is no difference, in the worst of these cases."""
    above, below, _ = exactly(rule, chances)
    return float((above + below).max())


def unlike(rates: np.ndarray) -> np.ndarray:
    """Outcomes of two equally good policies that succeed from different starts, as far as their rates allow."""
    only = np.minimum(rates, 1.0 - rates)
    return np.stack([rates - only, only, only, 1.0 - rates - only], axis=1)


def equal_power(first: float, second: float, alike: float, power: float, alpha: float, gives_up: bool) -> str:
    """The mean pairs of our test, and the smallest limit with which its power is at least this."""
    chances = outcomes(np.array([first]), np.array([second]), alike)
    for most in range(5, MOST_TRIED + 1):
        above, _, pairs = exactly(ours(most, alpha, gives_up), chances)
        if above[0] >= power:
            return f"{pairs[0]:.1f} ({most})"
    return f"more ({MOST_TRIED})"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=50, help="pairs at most")
    parser.add_argument("--alpha", type=float, default=0.05, help="both sides together")
    arguments = parser.parse_args(words)
    most, alpha = arguments.most, arguments.alpha
    rules = {
        "ours": ours(most, alpha, False), "STEP": step(most, alpha, False),
        "STEP's recipe on pairs": on_pairs(most, alpha, False), "the same, our budget": on_pairs(most, alpha, True),
        "ours, gives up": ours(most, alpha, True), "STEP, gives up": step(most, alpha, True),
    }  # fmt: skip

    print(f"at most {most} pairs, α = {alpha:g}, both sides together")
    print(f"verdicts of equal policies, the worst of {len(FINE)} rates:")
    for name, rule in rules.items():
        cells = [f"alike {alike:g} {wrong(rule, outcomes(FINE, FINE, alike)):.4f}" for alike in ALIKE]
        print(f"  {name}: {', '.join(cells)}, from different starts {wrong(rule, unlike(FINE)):.4f}", flush=True)

    second, first = np.array(RATES).T
    target = exactly(rules["STEP"], outcomes(first, second, 0.0))[0]
    for alike in ALIKE:
        print(
            f"\nalike {alike:g}: power, mean pairs; and our mean pairs (most) at the power of STEP on independent episodes"
        )
        print("| rates | " + " | ".join(rules) + " | at equal power | at equal power, gives up |")
        found = [exactly(rule, outcomes(first, second, alike)) for rule in rules.values()]
        for i, (p0, p1) in enumerate(RATES):
            cells = [f"{above[i]:.3f}, {pairs[i]:.1f}" for above, _, pairs in found]
            cells += [equal_power(p1, p0, alike, target[i], alpha, gives_up) for gives_up in (False, True)]
            print(f"| {p0:g}, {p1:g} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
