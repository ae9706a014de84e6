"""The gate: what passes, what fails, and what a shell is told."""

from __future__ import annotations

import evenroll
from evenroll.evaluation.gate import exit_code, in_a_line
from tests.evaluation.test_deciding import Noisy
from tests.evaluation.test_pairs import Always, Coin


def test_not_worse_worse_and_unknown() -> None:
    better = evenroll.gate(Noisy(), Always(40), Always(20), resets=0)
    assert (better.verdict, exit_code(better)) == ("not worse", 0)
    assert in_a_line(better).startswith("PASS: The first policy is not worse than the second: ")
    worse = evenroll.gate(Noisy(), Always(20), Always(40), resets=0)
    assert (worse.verdict, exit_code(worse)) == ("worse", 1)
    assert in_a_line(worse).startswith("FAIL: The first policy is worse than the second: ")
    equal = evenroll.gate(Noisy(), Always(20), Always(21), most=15, resets=0)
    assert (equal.verdict, exit_code(equal)) == ("undecided", 3)
    assert in_a_line(equal).startswith("UNKNOWN: Undecided (")


def test_a_margin_lets_an_equal_policy_pass_and_not_one_that_is_too_bad() -> None:
    """Equal, and 2 worse: with a margin of 1 the first passes, the second does not."""
    equal = evenroll.gate(Noisy(), Always(20), Always(21), margin=1.0, resets=0)
    assert equal.verdict == "not worse"
    assert equal.low > -1.0
    assert "by more than 1" in in_a_line(equal)
    worse = evenroll.gate(Noisy(), Always(20), Always(40), margin=1.0, resets=0)
    assert worse.verdict == "worse"
    assert worse.high < -1.0


def test_success_counts() -> None:
    found = evenroll.gate(Coin(), Always(9), Always(1), quantity="success", most=50)
    assert exit_code(found) == 0
    assert found.low >= 0.0
    lost = evenroll.gate(Coin(), Always(1), Always(9), quantity="success", most=50, margin=0.1)
    assert (exit_code(lost), lost.high < -0.1) == (1, True)


def test_nothing_to_tell_from_is_unknown() -> None:
    found = evenroll.gate(Coin(), Always(10), Always(10), most=8, resets=0)
    assert exit_code(found) == 3
    assert "equal" in in_a_line(found)
