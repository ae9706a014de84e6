"""Numbers and messages as people read them."""

from __future__ import annotations

ASKEW = 0.02  # how far from the middle of its interval, in half-widths, a value may lie and still be written with ±


def two_digits(x: float) -> str:
    """The number rounded to two digits: 1234 → 1200, 0.01234 → 0.012."""
    return f"{float(f'{x:.2g}'):g}"


def with_interval(value: float, low: float | None, high: float | None, digits: str = ".5g", level: str = "") -> str:
    """12.3 ± 0.4, or 0.02 (0.0005 … 0.11) where the value does not lie in the middle of its interval.

    level  what to say of the interval in brackets, such as "95 %"
    """
    text = f"{value:{digits}}"
    if low is None or high is None:
        return text
    half = (high - low) / 2
    if abs(value - (low + high) / 2) <= ASKEW * half:
        return f"{text} ± {two_digits(half)}" + (f" ({level})" if level else "")
    return f"{text} ({level}{': ' if level else ''}{low:.3g} … {high:.3g})"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the error's type if it has no message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
