"""Which of the package's sources determine a number, and their digest.

Editing a figure must not make stored results invalid, but editing anything that a trial runs through must. So the digest
covers the files that the trial's code can reach by its imports. They are read from the syntax tree, so that nobody keeps a
list that goes stale. Tables of names (domains, samplers, estimators …) are left out: what stands in them enters a block's
identity by value, and the functions and classes chosen from them enter as the roots of the search.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType
from typing import Any

from evenroll.errors import SpecError

PACKAGE = "evenroll"
ROOT = Path(__file__).parents[1]
PACKAGES = (
    "adapters",
    "collection",
    "domains",
    "engine",
    "estimators",
    "evaluation",
    "executors",
    "files",
    "intervals",
    "policies",
    "samplers",
    "study",
    "text",
)
TABLES = {
    PACKAGE,
    *(f"{PACKAGE}.{name}" for name in PACKAGES),
    "evenroll.domains.catalogue",
    "evenroll.samplers.table",
    "evenroll.estimators.table",
    "evenroll.study.method",
}


def digest_of(*roots: Any) -> str:
    """A digest of every source file that the modules of these functions and classes, or these modules, can reach."""
    digest = hashlib.sha256()
    for name in sorted(reachable(*roots)):
        digest.update(name.encode())
        digest.update(_path(name).read_bytes())
    return digest.hexdigest()


def reachable(*roots: Any) -> set[str]:
    """The names of the roots' modules, and of all modules of this package that they import, directly or not."""
    waiting = [name for root in roots for name in _modules_of(root)]
    modules: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in modules and name not in TABLES:
            modules.add(name)
            waiting += _imports(name) if _path(name).suffix == ".py" else ()
    return modules


def _modules_of(root: Any) -> Iterable[str]:
    """The modules of a root. A function in a table only calls others, so it stands for the modules of those it names."""
    if isinstance(root, str):
        return [root]
    if isinstance(root, FunctionType) and root.__module__ in TABLES:
        named = [root.__globals__.get(name) for name in root.__code__.co_names]
        return [x.__module__ for x in named if hasattr(x, "__module__")]
    return [root.__module__ if isinstance(root, FunctionType | type) else type(root).__module__]


@functools.cache
def _path(name: str) -> Path:
    if name.split(".")[0] == PACKAGE:
        base = ROOT.joinpath(*name.split(".")[1:])
        return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    try:
        spec = importlib.util.find_spec(name)
        return Path(inspect.getfile(importlib.import_module(name))) if spec is None else Path(str(spec.origin))
    except (ImportError, TypeError, ValueError):
        raise SpecError(f"{name} has no source file, so its results cannot be kept: put it into one") from None


@functools.cache
def _imports(name: str) -> tuple[str, ...]:
    """The modules of this package that a module imports anywhere in its file, except for type checking."""
    return tuple(sorted(set(_imported(ast.parse(_path(name).read_text())))))


def _imported(tree: ast.AST) -> Iterable[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE:
            for alias in node.names:
                yield _where(node.module, alias.name)
        else:
            yield from _imported(node)


def _where(module: str, name: str) -> str:
    """The module that `from module import name` takes the name from: a submodule, or where a package got it from."""
    if _path(f"{module}.{name}").is_file():
        return f"{module}.{name}"
    if module in TABLES and _path(module).name == "__init__.py":
        for node in ast.parse(_path(module).read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module and name in [alias.name for alias in node.names]:
                return node.module
    return module
