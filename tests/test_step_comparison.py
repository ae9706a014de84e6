"""tools/step_comparison.py: its recursions agree with enumeration and with runs of the test, and STEP keeps its promise."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from evenroll.intervals.sequential import HOPELESS, PATIENT, chance_to_decide, looks
from evenroll.intervals.success_pairs import success_test
from tools.deciding import _outcome_run
from tools.step_comparison import Rule, exactly, on_pairs, ours, outcomes, step

MOST, ALPHA = 7, 0.2


def _ours_told(first: np.ndarray, second: np.ndarray) -> tuple[int, int]:
    """(verdict, pairs) of one run, as evaluation/deciding.py looks at it."""
    test = success_test(looks(MOST), ALPHA)
    for n in looks(MOST):
        w, x = int((first & ~second)[:n].sum()), int((second & ~first)[:n].sum())
        error = np.sqrt(max((w + x - (w - x) ** 2 / n) / n, 1.0 / n) / n)
        sign = test.look(n, w, x)
        if sign or (n >= PATIENT * MOST and chance_to_decide((w - x) / n, error, n, MOST, (0.0, 0.0), 1.0) <= HOPELESS):
            return sign, n
    return 0, MOST


def _step_told(first: np.ndarray, second: np.ndarray) -> tuple[int, int]:
    rule = step(MOST, ALPHA, False)
    for n in range(1, MOST + 1):
        sign = int(rule.verdict[n][first[:n].sum(), second[:n].sum()])
        if sign:
            return sign, n
    return 0, MOST


@pytest.mark.parametrize(
    ("rule", "told"), [(lambda: ours(MOST, ALPHA, True), _ours_told), (lambda: step(MOST, ALPHA, False), _step_told)],
    ids=["ours", "STEP"],
)  # fmt: skip
def test_the_recursion_agrees_with_all_runs_of_seven_pairs(
    rule: Callable[[], Rule], told: Callable[[np.ndarray, np.ndarray], tuple[int, int]]
) -> None:
    """All 4⁷ runs are enumerated and weighed, for independent episodes and for shared starts."""
    runs = np.array(list(itertools.product(range(4), repeat=MOST)))  # both, only the first, only the second, neither
    found = np.array([told(row <= 1, row % 2 == 0) for row in runs])
    assert set(found[:, 0]) == {-1, 0, 1}
    assert len(set(found[:, 1])) > 2
    for alike in (0.0, 0.7):
        chances = outcomes(np.array([0.8]), np.array([0.3]), alike)
        weight = chances[0][runs].prod(axis=1)
        wanted = [weight[found[:, 0] > 0].sum(), weight[found[:, 0] < 0].sum(), weight @ found[:, 1]]
        assert np.concatenate(exactly(rule(), chances)) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("counts", ["successes", "pairs"])
def test_the_recipe_keeps_its_promise_after_every_pair(counts: str) -> None:
    """Independent episodes; 400 rates that are not those which the rule was made with."""
    rule = step(20, 0.05, False) if counts == "successes" else on_pairs(20, 0.05, False)
    rates = np.linspace(0.001, 0.999, 400)
    chances = outcomes(rates, rates, 0.0)
    for n in range(1, 21):
        above, below, _ = exactly(Rule(rule.moves, rule.verdict[: n + 1], rule.ends[: n + 1]), chances)
        assert (above + below).max() <= 0.05 * n / 20
    assert (above + below).max() > 0.045  # it is not merely silent


def test_step_decides_when_its_authors_do() -> None:
    """On their two robot tasks their test with at most 50 pairs, 5 % on each side, decides after 8 and 19 pairs, as the unit
    tests of TRI-ML/sequentialized_barnard_tests state. The counts are those of that pair, and of the one before."""
    verdict = step(50, 0.1, False).verdict
    assert (verdict[7][7, 2], verdict[8][8, 2]) == (0, 1)
    assert (verdict[18][11, 17], verdict[19][11, 18]) == (0, -1)


def test_dependence_is_what_the_correlation_says() -> None:
    first, second = np.array([0.3, 0.9]), np.array([0.6, 0.5])
    for alike in (0.0, 0.3, 0.9):
        both, only_first, only_second, neither = outcomes(first, second, alike).T
        assert both + only_first == pytest.approx(first)
        assert both + only_second == pytest.approx(second)
        assert both + only_first + only_second + neither == pytest.approx(1.0)
    assert outcomes(np.array([0.5]), np.array([0.5]), 0.6)[0, 0] == pytest.approx(0.25 + np.arcsin(0.6) / (2 * np.pi))


@pytest.mark.statistical
def test_our_exact_power_is_that_of_simulated_runs(base_seed: int) -> None:
    """3,000 runs of at most 30 pairs, 0.8 against 0.5: power and mean pairs within 4.5 standard errors. P(false) ≤ 2e-5.
    Catches a power that is off by 0.08, or mean pairs that are off by 1.5, which is twice what is allowed."""
    rng = np.random.default_rng(base_seed)
    found = np.array([_outcome_run(rng, 0.8, 0.5, 30)[:2] for _ in range(3000)])
    above, _, pairs = exactly(ours(30, 0.05, True), outcomes(np.array([0.8]), np.array([0.5]), 0.0))
    assert abs((found[:, 0] > 0).mean() - above[0]) < 4.5 * np.sqrt(above[0] * (1 - above[0]) / 3000)
    assert abs(found[:, 1].mean() - pairs[0]) < 4.5 * found[:, 1].std() / np.sqrt(3000)
