"""Tests of the tests: statistical ones say what they promise."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RATE, DEVIATION = re.compile(r"P\(false\) ≤ (\d(?:\.\d+)?e-\d+)"), re.compile(r"\bCatches ")


def _statistical() -> list[ast.FunctionDef]:
    trees = (ast.parse(path.read_text()) for path in (ROOT / "tests").rglob("test_*.py"))
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [f for f in functions if any(ast.unparse(d) == "pytest.mark.statistical" for d in f.decorator_list)]


@pytest.mark.parametrize("function", _statistical(), ids=lambda function: function.name)
def test_statistical_tests_state_their_promises(function: ast.FunctionDef) -> None:
    """Each has the base seed, a false-failure rate of at most 1e-4, and says what deviation it catches."""
    text = ast.get_docstring(function) or ""
    assert "base_seed" in [argument.arg for argument in function.args.args]
    assert float(RATE.search(text)[1]) <= 1e-4
    assert DEVIATION.search(text)


def test_statistical_tests_are_found() -> None:
    """Also those in folders; when the tests moved there, there were 34."""
    assert len(_statistical()) >= 34
