"""`make mutants` plants what it says: bugs somebody thought of, and bugs drawn from every place where one fits."""

from __future__ import annotations

import ast

import pytest

from tests.helpers import ROOT
from tests.test_mirror import modules
from tools.mutants.bug import PACKAGE, Bug
from tools.mutants.drawing import KINDS, Places, all_bugs, bugs_in, can_be_parsed, draw, files
from tools.mutants.equivalent import EQUIVALENT
from tools.mutants.known import MUTANTS, SEAMS, SUBSET
from tools.mutants.places import files_for
from tools.mutants.planting import is_compiled, stamps

SOURCE = '''"""Not 1 < 2."""

@decorated(1 + 2)
def f(θ: int | None, b=3) -> "1 + 2":
    """Nor 3."""
    few = 12  # episodes; a choice
    if not (θ  <=  b) and g(θ, b):  # kept
        raise ValueError(f"{θ + b}", 7)
    return -(θ + 1) * b if θ else 0.5
'''
EXPECTED = {
    "operator": {"return (θ + 1) * b if", "return -(θ + 1) / b if", "return -(θ - 1) * b if"},
    "comparison": {"if not (θ  >  b) and"},
    "off by one": {"if not (θ  <  b) and", "b=4)", "θ + 2)"},
    "constant": {"b=6)", "else 1.0", "θ + 0)"},
    "dropped term": {
        "if (g(θ, b)):",
        "if (not (θ  <=  b)):",
        "return (-(θ + 1)) if",
        "return (b) if",
        "-((θ)) *",
        "-((1)) *",
    },
    "swapped arguments": {"g(b, θ)"},
    "negation": {"b) or g", "if not (not (θ  <=  b) and g(θ, b)):", "if (θ  <=  b) and", "b if not (θ) else"},
}


def planted(bug: Bug) -> str:
    text = SOURCE.encode()
    return (text[: bug.start] + bug.new + text[bug.end :]).decode()


@pytest.mark.parametrize("kind", KINDS)
def test_a_bug_is_planted_wherever_its_kind_fits_and_nowhere_else(kind: str) -> None:
    """Words, annotations, decorators and what an error says are left alone, and so is all text around the bug."""
    places = Places("f.py", SOURCE.encode())
    places.visit(ast.parse(SOURCE))
    found = [planted(bug) for bug in places.bugs if bug.kind == kind]
    assert len(found) == len(EXPECTED[kind])
    for words in EXPECTED[kind]:
        assert sum(words in text for text in found) == 1, words
    for text in found:
        assert "# kept" in text or kind == "dropped term"
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(SOURCE))


def test_a_draw_is_decided_by_its_seed_and_covers_kinds_and_packages() -> None:
    bugs = all_bugs()
    drawn = draw(3, 200, bugs)
    assert [bug.name for bug in drawn[:20]] == [bug.name for bug in draw(3, 20, bugs)]
    assert {bug.name for bug in draw(4, 20, bugs)} != {bug.name for bug in drawn[:20]}
    assert {bug.kind for bug in drawn} == set(KINDS)
    assert len({(bug.file, bug.start) for bug in drawn}) == len(drawn)
    assert all(can_be_parsed(bug) for bug in drawn)
    assert len({bug.file.split("/")[0] for bug in drawn}) > 8


def test_a_bug_is_called_by_its_line_before_and_after() -> None:
    bug = next(bug for bug in bugs_in("text/numbers.py") if bug.kind == "constant")
    was, becomes = bug.name.removeprefix("text/numbers.py: ").split(" → ")
    assert was == " ".join(bug.source.decode().splitlines()[bug.line - 1].split())
    assert becomes == " ".join(bug.planted().decode().splitlines()[bug.line - 1].split())


def test_known_bugs_can_be_planted() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == 12
    assert len({mutant.name for mutant in SEAMS}) == len(SEAMS)
    for mutant in (*MUTANTS, *SEAMS):
        bug = mutant.bug()  # raises unless its text stands there exactly once
        assert can_be_parsed(bug), mutant.name
        assert bug.planted() != bug.source
    for test in SUBSET:
        file, name = test.split("::")
        assert f"def {name.split('[')[0]}(" in (ROOT / file).read_text(), test


def test_every_module_has_files_for_its_place() -> None:
    for module in (*modules(), *(file.removesuffix(".py") for file in files())):
        tests = files_for(module)
        assert tests
        assert all((ROOT / test).exists() for test in tests)
    assert files_for("samplers/ros") == ("tests/samplers/test_ros.py", "tests/contract/test_samplers.py")
    assert files_for("policies/heads")[0] == "tests/policies/test_mlp.py"


def test_only_machine_code_that_the_bug_can_reach_is_made_anew() -> None:
    """What imports the file with the bug is compiled again, and nothing is where the bug is not compiled."""
    sound = stamps()
    in_a_piece = next(mutant.bug() for mutant in MUTANTS if mutant.name == "sign of α")
    assert is_compiled(in_a_piece)
    changed = {module for module, stamp in stamps(in_a_piece).items() if stamp != sound[module]}
    assert {"evenroll.samplers.ros", "evenroll.samplers.table", ""} <= changed
    assert not {"evenroll.policies.heads", "evenroll.domains.cartpole", "evenroll.samplers.bpg"} & changed
    in_python = next(mutant.bug() for mutant in SEAMS if mutant.file == "collection/minari_files.py")
    assert not is_compiled(in_python)
    assert stamps(in_python) == sound


def test_what_is_called_equivalent_still_stands_there() -> None:
    for name, reason in EQUIVALENT.items():
        file, was = name.split(" → ")[0].split(": ", 1)
        assert was in " ".join((PACKAGE / file).read_text().split()), name
        assert reason
