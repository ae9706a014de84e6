"""Numbers and messages as people read them."""

from __future__ import annotations


def two_digits(x: float) -> str:
    """The number rounded to two digits: 1234 → 1200, 0.01234 → 0.012."""
    return f"{float(f'{x:.2g}'):g}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the error's type if it has no message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
