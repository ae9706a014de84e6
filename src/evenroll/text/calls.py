"""A call of a Python function as the line that repeats it."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SILENT = frozenset(("progress", "warned"))  # arguments that do not change what comes out


def written_call(name: str, function: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """`name(…)` with the arguments that were given. What equals its default is left out.

    An object that cannot be written down, such as an environment, stands there by the name of its argument. (`given` are
    the arguments by their names: `locals()` in the function's first line.)
    """
    words = []
    for argument in inspect.signature(function).parameters.values():
        value, default = given[argument.name], argument.default
        if argument.name in SILENT or (is_plain(value) and is_plain(default) and value == default):
            continue
        text = _written(value) if is_plain(value) else argument.name
        words.append(f"{argument.name}={text}" if argument.kind is argument.KEYWORD_ONLY else text)
    return f"{name}({', '.join(words)})"


def is_plain(value: Any) -> bool:
    """Whether a value can be written down so that Python reads the same value again."""
    if isinstance(value, tuple):
        return all(is_plain(part) for part in value)
    return value is None or isinstance(value, str | Path | numbers.Number)


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_written(part) for part in value)}{',' if len(value) == 1 else ''})"
    if isinstance(value, numbers.Number) and hasattr(value, "item"):  # a number of NumPy's
        value = value.item()
    return repr(str(value) if isinstance(value, Path) else value)
