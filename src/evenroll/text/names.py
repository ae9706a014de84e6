"""Objects by name. A specification says `module:name` for what somebody has written outside this package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Container
from typing import Any

from evenroll.errors import EvenrollError, SpecError


def is_named(text: str) -> bool:
    """Whether the text has the form `module:name`. Gymnasium's `module:Env-v0`, a path and `ros:alpha=10` do not have it."""
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def split_spec(text: str, known: Container[str] = ()) -> tuple[str, str]:
    """Split `name[:key=value,…]` into (name, parameters). The name may be `module:name`, unless `known` holds its module."""
    first, _, rest = text.partition(":")
    second, _, parameters = rest.partition(":")
    if first not in known and is_named(f"{first}:{second}"):
        return f"{first}:{second}", parameters
    return first, rest


def named(text: str) -> Any:
    """The object `module:name`. Modules are looked for in the current directory too."""
    module, _, name = text.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        thing = importlib.import_module(module)
        for part in name.split("."):
            thing = getattr(thing, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise SpecError(f"cannot find {text!r}: {error}") from None
    except Exception as error:
        raise SpecError(f"{module} cannot be imported: {type(error).__name__}: {error}") from None
    return thing


def called(text: str, function: Callable[..., Any], **arguments: Any) -> Any:
    """Call a function of the user's and return its result. `text` names the function in an error."""
    try:
        return function(**arguments)
    except EvenrollError:
        raise
    except Exception as error:
        raise SpecError(f"{text} failed: {type(error).__name__}: {error}") from None
