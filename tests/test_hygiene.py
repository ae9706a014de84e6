"""Tests of the tests: statistical ones say what they promise, and the bugs of `make mutants` can still be planted."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RATE, DEVIATION = re.compile(r"P\(false\) ≤ (\d(?:\.\d+)?e-\d+)"), re.compile(r"\bCatches ")


def test_statistical_tests_state_their_promises(request: pytest.FixtureRequest) -> None:
    """Each has the base seed, a false-failure rate of at most 1e-4, and says what deviation it catches."""
    marked = {i.function: i for i in request.session.items if i.get_closest_marker("statistical")}
    for function, item in marked.items():
        said = RATE.search(function.__doc__ or "")
        assert said, f"{item.nodeid} does not say P(false) ≤ …"
        assert float(said[1]) <= 1e-4, item.nodeid
        assert DEVIATION.search(function.__doc__), f"{item.nodeid} does not say what it catches"
        assert "base_seed" in item.fixturenames, f"{item.nodeid} does not hang on the base seed"


def test_every_mutant_can_be_planted() -> None:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
    mutants = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = mutants  # its dataclass looks itself up
    spec.loader.exec_module(mutants)
    assert len({m.name for m in mutants.MUTANTS}) == 12
    for mutant in mutants.MUTANTS:
        text = (ROOT / "src" / "evenroll" / mutant.file).read_text()
        assert text.count(mutant.old) == 1, mutant.name
        assert mutant.new not in text, mutant.name
    for test in mutants.SUBSET:
        file, name = test.split("::")
        assert f"def {name.split('[')[0]}(" in (ROOT / file).read_text(), test
