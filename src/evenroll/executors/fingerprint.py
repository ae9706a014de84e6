"""What determines the numbers of a process."""

from __future__ import annotations

import functools
import sys
from importlib.metadata import version

from evenroll.engine.sources import sources_digest


@functools.cache
def fingerprint() -> str:
    """What determines the numbers of this process: our sources, and the libraries that do the arithmetic.

    Two processes with equal fingerprints give equal numbers.
    """
    libraries = [f"{name} {version(name)}" for name in ("numpy", "numba", "scipy")]
    return " ".join([sources_digest(), sys.version.split()[0], *libraries])
