"""Numbers and messages as people read them."""

from __future__ import annotations

import pytest

from evenroll.text.numbers import first_line, two_digits


@pytest.mark.parametrize(
    ("x", "text"), [(1234, "1200"), (0.01234, "0.012"), (9.96, "10"), (0.0, "0"), (-0.000456, "-0.00046")]
)
def test_two_digits(x: float, text: str) -> None:
    assert two_digits(x) == text


def test_the_first_line_of_an_error() -> None:
    assert first_line(ValueError("this\nand that")) == "this"
    assert first_line(ValueError()) == "ValueError"
