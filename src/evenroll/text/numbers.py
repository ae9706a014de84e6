"""Numbers and messages as people read them."""

from __future__ import annotations


def two_digits(x: float) -> str:
    """1234 → 1200, 0.01234 → 0.012."""
    return f"{float(f'{x:.2g}'):g}"


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
