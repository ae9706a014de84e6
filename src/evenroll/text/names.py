"""Objects by name. A specification says `module:name` for what somebody has written outside this package."""

from __future__ import annotations

import importlib
import os
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
    """The object `module:name`. Modules are looked for in the current directory too, after all other places.

    So a file of the current directory is imported because its name was given, and never in place of an installed module
    that bears the same name.
    """
    module, _, name = text.partition(":")
    here = os.getcwd()
    if "" not in sys.path and here not in sys.path:
        sys.path.append(here)
    try:
        thing = importlib.import_module(module)
        for part in name.split("."):
            thing = getattr(thing, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise SpecError(f"cannot find {text!r}: {error}{_shadowed(module)}") from None
    except Exception as error:
        raise SpecError(f"{module} cannot be imported: {type(error).__name__}: {error}") from None
    return thing


def _shadowed(module: str) -> str:
    """Words on a file of the current directory that was not imported because an installed module has its name."""
    found = getattr(sys.modules.get(module), "__file__", None)
    mine = os.path.abspath(module.replace(".", os.sep) + ".py")
    if found is None or not os.path.isfile(mine) or os.path.samefile(found, mine):
        return ""
    return f" ({os.path.basename(mine)} in this directory is not used: {module} is an installed module; rename the file)"


def called(text: str, function: Callable[..., Any], **arguments: Any) -> Any:
    """Call a function of the user's and return its result. `text` names the function in an error."""
    try:
        return function(**arguments)
    except EvenrollError:
        raise
    except Exception as error:
        raise SpecError(f"{text} failed: {type(error).__name__}: {error}") from None
