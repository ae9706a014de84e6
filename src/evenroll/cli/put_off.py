"""Modules that a library imports and that nobody uses: they are loaded when somebody does.

SciPy's special functions import all of NumPy's namespace, and with it a compiler of Fortran and a framework for tests. That
is a tenth of a second of every command, which has no use for either.
"""

from __future__ import annotations

import importlib.util
import sys

UNUSED = ("numpy.f2py", "numpy.testing")


def put_off(names: tuple[str, ...] = UNUSED) -> None:
    """Give these modules their places. What is in them is loaded when somebody asks for it."""
    for name in names:
        parent, _, own = name.rpartition(".")
        spec = None if name in sys.modules else importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            continue
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        setattr(sys.modules[parent], own, module)
