"""Reading `key=value,…` and answering misspelt names."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable
from typing import Any

from evenroll.errors import SpecError


def closest(name: str, known: Iterable[str]) -> str:
    """The words ' (did you mean …?)' if a known name resembles this one, else nothing."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {matches[0]}?)" if matches else ""


def parse_parameters(spec: str, text: str) -> dict[str, str]:
    """The dictionary that 'a=1,b=2' describes. `spec` names the whole specification in an error."""
    values: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise SpecError(f"{spec}: expected key=value, not {part!r}")
        if key.strip() in values:
            raise SpecError(f"{spec}: {key.strip()} is given twice")
        values[key.strip()] = value.strip()
    return values


def check_name(what: str, name: str, taken: bool) -> None:
    """Raise unless a sampler or an estimator of the user's may have this name. Tables and files tell methods by it."""
    if taken:
        raise SpecError(f"{name!r} is the name of a built-in {what}: give yours another")
    if not name or set(name) & set("/:,= "):
        raise SpecError(f"{name!r} cannot name the {what}: a name is not empty and has no / : , = and no blank")


def share(what: str, value: Any) -> float:
    """The value as a float; a SpecError that names it unless it is a number from 0 to 1."""
    if isinstance(value, str | bytes | bool) or value is None:
        raise SpecError(f"{what} must be a number from 0 to 1, not {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise SpecError(f"{what} must lie in [0, 1], not {value!r:.60}")
    return number


def whole_number(what: str, value: Any, least: int) -> int:
    """The value as an int; a SpecError that names it unless it is a whole number, at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise SpecError(f"{what} must be a whole number, at least {least}, not {value!r}")
    return number
