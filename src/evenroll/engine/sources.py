"""A digest of the package's sources, on which compiled machine code and stored results depend."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
# Packages whose sources can end up in machine code. `tests/test_architecture.py` checks that no other package compiles.
COMPILED = ("engine", "policies", "domains", "samplers", "collection", "estimators")


@functools.cache
def sources_digest() -> str:
    """A digest of every Python source of the package: two processes with equal digests run the same code."""
    return _digest(PACKAGE)


@functools.cache
def compiled_sources_digest() -> str:
    """A digest of every source that machine code may have been made from, directly or by inlining."""
    return _digest(*(PACKAGE / name for name in COMPILED))


def _digest(*folders: Path) -> str:
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(PACKAGE).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
