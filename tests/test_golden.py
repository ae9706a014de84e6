"""The same numbers as ever: small runs of everything, against the files in tests/golden (tools/golden.py makes them)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import golden

FILES = Path(__file__).parent / "golden"


@pytest.mark.parametrize(("group", "name"), list(golden.cases()))
def test_results_are_what_they_were(group: str, name: str) -> None:
    """Bit for bit. Another processor or another library rounds otherwise, and there is nothing to compare with."""
    if not golden.made_here(FILES, group):
        pytest.skip("the golden files were made on another processor or with other libraries (see tools/golden.py)")
    assert golden.check(FILES, group, name) == []
