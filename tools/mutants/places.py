"""Which tests belong to a module: those of its name, those that the map of tests names, and what its whole package obeys."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_mirror import ELSEWHERE
from tools.mutants.bug import ROOT

TESTS = ROOT / "tests"
# Tests that run a whole package through what users run. Trials and lanes are run by the contract of samplers and adapters.
WIDE = {
    "adapters": ("contract/test_adapters.py",),
    "collection": ("contract/test_samplers.py", "contract/test_adapters.py"),
    "domains": ("contract/test_samplers.py",),
    "engine": ("contract/test_interpreted.py",),
    "estimators": ("contract/test_estimators.py", "laws/test_estimators.py"),
    "executors": ("contract/test_executors.py",),
    "files": ("files/test_corpus.py",),
    "intervals": ("laws/test_coverage.py",),
    "policies": ("contract/test_samplers.py",),
    "samplers": ("contract/test_samplers.py",),
}
# Modules that no test is named after: they are a few lines long, or stand outside of all packages.
NAMED = {
    "errors": ("tests/collection/test_environments.py", "tests/evaluation/test_interruption.py", "tests/cli/test_app.py"),
    "__init__": ("tests/cli/test_app.py", "tests/test_architecture.py"),
    "__main__": ("tests/cli/test_app.py",),
}


def files_for(module: str) -> tuple[str, ...]:
    """Test files for `package/module`, those that say most about it first. What is slow and wide stands last."""
    if module in NAMED:
        return NAMED[module]
    package, name = module.rsplit("/", 1)
    own = [f"{folder}/test_{name}.py" for folder in (package, "laws", "contract")]
    other = [ELSEWHERE[module][0]] if module in ELSEWHERE else []
    beside = [path.relative_to(TESTS).as_posix() for path in sorted((TESTS / package).glob("test_*.py"))]
    importing = [file for file in beside if _imports(TESTS / file, module)]
    wide = WIDE.get(package, ())
    found = [file for file in dict.fromkeys([*own, *other, *importing, *wide]) if (TESTS / file).exists()]
    if set(found) <= set(wide):  # a small module: the package's tests use it
        found = [*beside, *found]
    return tuple(f"tests/{file}" for file in dict.fromkeys(found))


def _imports(path: Path, module: str) -> bool:
    package, name = module.rsplit("/", 1)
    text = path.read_text()
    whole = re.search(rf"\bevenroll\.{package}\.{name}\b", text)
    return bool(whole or re.search(rf"from evenroll\.{package} import [^\n]*\b{name}\b", text))
