"""Numbers and messages as people read them."""

from __future__ import annotations

import math

import pytest

from evenroll.text.numbers import first_line, precise, two_digits, with_interval


@pytest.mark.parametrize(
    ("x", "text"), [(1234, "1200"), (0.01234, "0.012"), (9.96, "10"), (0.0, "0"), (-0.000456, "-0.00046")]
)
def test_two_digits(x: float, text: str) -> None:
    assert two_digits(x) == text


def test_the_first_line_of_an_error() -> None:
    assert first_line(ValueError("this\nand that")) == "this"
    assert first_line(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    ("x", "half", "text"),
    [
        (12345.67, 0.02, "12345.67"),
        (1234567.8, 0.4, "1234567.8"),
        (-12345.67, 0.02, "-12345.67"),
        (35.61234, 0.42, "35.612"),
        (35.61234, 0.042, "35.612"),
        (35.61234, 0.0042, "35.6123"),
        (0.00012345678, 3e-9, "0.0001234568"),
        (12345.67, 0.0, "12346"),
        (0.0, 0.5, "0"),
        (12345.67, math.inf, "12346"),
        (math.inf, 0.1, "inf"),
        (1.0, 1e-300, "1"),
    ],
)
def test_a_number_is_as_precise_as_its_interval(x: float, half: float, text: str) -> None:
    """ "12346 ± 0.02" was said of 12345.67, and lies outside of its own interval."""
    assert precise(x, half) == text


def test_every_number_that_is_written_lies_in_its_interval() -> None:
    """Over twelve powers of ten of the value and of the half-width: off by a twentieth of the half-width at most."""
    for power in range(-4, 9):
        for narrow in range(-4, 9):
            value, half = 1.23456789 * 10.0**power, 9.87 * 10.0 ** (power - narrow)
            written, _, width = with_interval(value, value - half, value + half).partition(" ± ")
            assert abs(float(written) - value) <= 0.05 * half
            assert float(width) == pytest.approx(half, rel=0.05)
            askew = with_interval(value, value - half, value + 3 * half)
            written, low, high = askew.replace("(", "").replace(")", "").replace("…", "").split()
            assert abs(float(written) - value) <= 0.1 * half
            assert abs(float(low) - (value - half)) <= 0.1 * half
            assert abs(float(high) - (value + 3 * half)) <= 0.1 * half


def test_values_and_intervals_in_words() -> None:
    assert with_interval(12.3456789, 12.0, 12.6913578) == "12.346 ± 0.35"
    assert with_interval(12.3456789, 12.0, 12.6913578, "+", "95 %") == "+12.346 ± 0.35 (95 %)"
    assert with_interval(0.02, 0.0005, 0.11) == "0.02 (0.0005 … 0.11)"
    assert with_interval(0.02, 0.0005, 0.11, level="90 %") == "0.02 (90 %: 0.0005 … 0.11)"
    assert with_interval(1234.5, 1234.45, 1234.9, level="95 %") == "1234.5 (95 %: 1234.45 … 1234.9)"
    assert with_interval(2.0, 1.0, 3.04) == "2 ± 1"  # askew by less than a fiftieth
    assert with_interval(2.0, 1.0, 3.05) == "2 (1 … 3.05)"
    assert with_interval(123456.0, None, None) == "1.2346e+05"
    assert with_interval(5.0, None, 7.0, "+") == "+5"
