"""The package's map: imports point one way, every import is at the top of its file, modules stay short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenroll.engine.sources import COMPILED

PACKAGE = Path(__file__).parents[1] / "src" / "evenroll"
# From the bottom to the top: a package may import those before it.
LAYERS = (
    "errors", "text", "engine", "executors", "files", "policies", "domains", "samplers", "adapters", "collection",
    "estimators", "intervals", "evaluation", "sb3", "study", "cli",
)  # fmt: skip
# Imports inside functions, and why: an optional dependency behind them, or the time that a start takes.
OPTIONAL, START_UP = "optional dependency", "start-up time"
INSIDE: dict[str, str] = {
    "__init__": START_UP,  # `import evenroll` loads nothing that is not used
    "cli": START_UP,  # `evenroll --help` compiles nothing
    "adapters.model adapters.sb3_models": OPTIONAL,
    "adapters.model adapters.modules": OPTIONAL,
    "adapters.model adapters.sb3_networks": OPTIONAL,
    "adapters.functions adapters.torch_results": OPTIONAL,
    "collection.recorder adapters.ros_through_torch": OPTIONAL,
    "study.bench adapters.torch_copies": OPTIONAL,
}


def modules() -> list[str]:
    return sorted(".".join(p.relative_to(PACKAGE).with_suffix("").parts) for p in PACKAGE.rglob("*.py"))


def layer(module: str) -> int:
    first = module.removeprefix("evenroll").lstrip(".").split(".")[0]
    return len(LAYERS) if first in ("", "__init__", "__main__") else LAYERS.index(first)


def imports(module: str) -> Iterator[tuple[str, bool]]:
    """Modules of this package that a module imports, for types or for use, and whether it does so inside a function."""
    tree = ast.parse((PACKAGE / Path(*module.split("."))).with_suffix(".py").read_text())
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "evenroll":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found = whole if whole.removeprefix("evenroll.") in KNOWN else node.module
                yield found.removeprefix("evenroll").lstrip(".") or "__init__", id(node) in inside
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "evenroll":
                    yield alias.name.removeprefix("evenroll").lstrip(".") or "__init__", id(node) in inside


KNOWN = set(modules())


def test_the_top_holds_packages_only() -> None:
    files = {p.name for p in PACKAGE.iterdir() if p.is_file()}
    assert files == {"__init__.py", "__main__.py", "errors.py", "py.typed"}
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders == set(LAYERS) - {"errors"}


@pytest.mark.parametrize("package", [name for name in LAYERS if name != "errors"])
def test_a_package_says_what_lives_there_and_what_it_may_import(package: str) -> None:
    said = ast.get_docstring(ast.parse((PACKAGE / package / "__init__.py").read_text())) or ""
    assert "import" in said
    assert len(said) > 60


@pytest.mark.parametrize("module", modules())
def test_imports_point_one_way(module: str) -> None:
    upward = [name for name, _ in imports(module) if layer(name) > layer(module) and name != "__init__"]
    assert upward == []


def test_there_is_no_cycle() -> None:
    graph = {module: {name for name, _ in imports(module)} & KNOWN for module in KNOWN}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join([*path[path.index(module) :], module])
        if module not in done:
            for name in graph[module]:
                visit(name, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("module", modules())
def test_imports_inside_functions_have_a_reason(module: str) -> None:
    hidden = [name for name, inside in imports(module) if inside]
    reasons = [INSIDE.get(module), INSIDE.get(module.split(".")[0]), *(INSIDE.get(f"{module} {name}") for name in hidden)]
    assert not hidden or any(reasons), f"{module} imports {hidden} inside functions"
    listed = [key for key in INSIDE if key.split()[0] == module and " " in key]
    assert {key.split()[1] for key in listed} <= set(hidden), "an exception that nobody needs any more"


def test_modules_are_short() -> None:
    lengths = {
        module: len((PACKAGE / Path(*module.split("."))).with_suffix(".py").read_text().splitlines()) for module in KNOWN
    }
    assert {module: n for module, n in lengths.items() if n > 400} == {}
    assert sorted(lengths.values())[len(lengths) // 2] < 250


def test_only_listed_packages_compile() -> None:
    """The compile cache is stamped with a digest of these packages alone (`engine.sources`)."""
    words = ("njit", "@helper", "import compiled", "@piece", "intrinsic")
    compiling = {
        module.split(".")[0]
        for module in KNOWN
        if any(word in (PACKAGE / Path(*module.split("."))).with_suffix(".py").read_text() for word in words)
    }
    assert compiling <= set(COMPILED), compiling
    for package in COMPILED:
        reached = {name.split(".")[0] for module in KNOWN if module.split(".")[0] == package for name, _ in imports(module)}
        assert reached <= {*COMPILED, "errors", "text", "files", "adapters", "__init__"}
