"""Numbers and messages as people read them."""

from __future__ import annotations

import math

ASKEW = 0.02  # how far from the middle of its interval, in half-widths, a value may lie and still be written with ±


def two_digits(x: float) -> str:
    """The number rounded to two digits: 1234 → 1200, 0.01234 → 0.012."""
    return f"{float(f'{x:.2g}'):g}"


def precise(x: float, half: float, digits: int = 5, sign: str = "") -> str:
    """The number with so many digits, or with more where rounding would move it by over a twentieth of a half-width.

    12345.67 ± 0.02 is no "12346 ± 0.02", which would lie outside of its own interval.
    """
    if x != 0.0 and half > 0.0 and math.isfinite(x) and math.isfinite(half):
        digits = max(digits, min(math.floor(math.log10(abs(x))) - math.floor(math.log10(half)) + 2, 17))
    return f"{x:{sign}.{digits}g}"


def with_interval(value: float, low: float | None, high: float | None, sign: str = "", level: str = "") -> str:
    """12.3 ± 0.4, or 0.02 (0.0005 … 0.11) where the value does not lie in the middle of its interval.

    sign   "+" to write the sign of what is above 0, too
    level  what to say of the interval in brackets, such as "95 %"
    """
    if low is None or high is None:
        return precise(value, 0.0, sign=sign)
    half = (high - low) / 2
    text = precise(value, half, sign=sign)
    if abs(value - (low + high) / 2) <= ASKEW * half:
        return f"{text} ± {two_digits(half)}" + (f" ({level})" if level else "")
    return f"{text} ({level}{': ' if level else ''}{precise(low, half, 3)} … {precise(high, half, 3)})"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the error's type if it has no message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
