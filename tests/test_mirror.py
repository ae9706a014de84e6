"""The map from modules to tests: whoever opens `package/module.py` finds `tests/package/test_module.py`.

What every sampler, estimator or executor must obey stands in `contract`, theorems and exact values in `laws`.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "evenroll"
LONG, LONGEST = 40, 400  # lines of code from which on a module needs a test of its name; lines that a test file may have
FOLDERS = {"contract", "docs", "laws", "golden"}  # those that belong to no package
# Modules that are tested under another name, and why. A new module wants a test of its own name instead.
ELSEWHERE: dict[str, tuple[str, str]] = {
    "adapters/contract": ("contract/test_adapters.py", "every kind of policy is brought to it there"),
    "adapters/recurrent": ("adapters/test_memory.py", "every kind of policy that remembers is run there"),
    "cli/reproduce": ("study/test_reproduce.py", "the command is run there"),
    "collection/step": ("contract/test_samplers.py", "every sampler takes this step, alone and in a whole trial"),
    "policies/heads": ("policies/test_mlp.py", "autograd checks the scores of both heads"),
    "policies/interface": ("policies/test_mlp.py", "autograd checks what is called through it"),
    "policies/mlp_pieces": ("policies/test_mlp.py", "autograd checks forward and backward pass"),
    "samplers/base": ("contract/test_samplers.py", "every sampler is one of these"),
    "study/domain_pictures": ("study/test_figures.py", "the figure is drawn there"),
    "study/report_text": ("study/test_report.py", "the page that shows the sentences is read there"),
}


def lines_of_code(path: Path) -> int:
    """Without blank lines, comments and docstrings."""
    text, silent = path.read_text(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            silent |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in blank]
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - silent)


def modules() -> dict[str, Path]:
    """Every module that lives in a package, by `package/module`."""
    found = {p.relative_to(PACKAGE).with_suffix("").as_posix(): p for p in PACKAGE.rglob("*.py")}
    return {name: path for name, path in sorted(found.items()) if "/" in name and path.name != "__init__.py"}


def has_a_test_of_its_name(module: str) -> bool:
    package, name = module.rsplit("/", 1)
    return any((TESTS / folder / f"test_{name}.py").exists() for folder in (package, "laws", "contract"))


@pytest.mark.parametrize("module", [m for m, path in modules().items() if lines_of_code(path) > LONG])
def test_a_module_has_a_test_of_its_name(module: str) -> None:
    if not has_a_test_of_its_name(module):
        assert module in ELSEWHERE, f"write tests/{module.replace('/', '/test_')}.py, or say in ELSEWHERE where it is tested"
        where, why = ELSEWHERE[module]
        assert (TESTS / where).exists()
        assert why


def test_exceptions_are_needed() -> None:
    assert set(ELSEWHERE) <= set(modules()), "exceptions for modules that are gone"
    assert [module for module in ELSEWHERE if has_a_test_of_its_name(module)] == []


def test_folders_of_tests_are_packages() -> None:
    folders = {p.name for p in TESTS.iterdir() if p.is_dir() and p.name != "__pycache__"}
    packages = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists()}
    assert folders - packages == FOLDERS
    assert all((TESTS / name / "__init__.py").exists() for name in folders - {"golden"})


def test_no_test_file_is_long() -> None:
    lengths = {p.relative_to(TESTS).as_posix(): len(p.read_text().splitlines()) for p in TESTS.rglob("*.py")}
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


def test_names_of_tests_say_which_is_which() -> None:
    """The seed of a statistical test comes from its name (`conftest.base_seed`): two of one name would share numbers."""
    names: dict[str, list[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and "base_seed" in [a.arg for a in node.args.args]:
                names.setdefault(node.name, []).append(path.name)
    assert {name: where for name, where in names.items() if len(where) > 1} == {}
