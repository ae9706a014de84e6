"""Linear algebra on one thread: the limit holds inside the context only, and libraries that come later are found."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from evenroll.engine import blas


def threads() -> list[int]:
    np.linalg.inv(np.eye(2))
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_the_limit_holds_inside_and_is_taken_back() -> None:
    before = threads()
    assert before, "NumPy brings a library of linear algebra along"
    with blas.single_threaded_blas():
        assert set(threads()) == {1}
        with blas.single_threaded_blas():
            assert set(threads()) == {1}
        assert set(threads()) == {1}
    assert threads() == before


def test_libraries_are_looked_for_again_only_after_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    class Counting(blas.ThreadpoolController):
        def __init__(self) -> None:
            looked.append(1)
            super().__init__()

    blas._libraries.cache_clear()
    monkeypatch.setattr(blas, "ThreadpoolController", Counting)
    for _ in range(3):
        with blas.single_threaded_blas():
            pass
    assert len(looked) == 1
    monkeypatch.setitem(sys.modules, "a_module_that_was_not_there", types.ModuleType("a_module_that_was_not_there"))
    with blas.single_threaded_blas():
        pass
    assert len(looked) == 2
    blas._libraries.cache_clear()
