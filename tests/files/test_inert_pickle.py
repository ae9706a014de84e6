"""A pickle is described without anything in it being run."""

from __future__ import annotations

import io
import os
import pickle
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from evenroll.errors import DataError
from evenroll.files.inert_pickle import MOST_INSTRUCTIONS, Call, described, numbers
from tests.files.corpus.valid import Bomb


@pytest.mark.parametrize("protocol", range(2, 6))
def test_plain_values_are_themselves(protocol: int) -> None:
    shared = [1, -2, 2**40, 0.5]
    thing = {"a": shared, "b": (None, True, False), "c": ("x", "ü" * 300), "d": (), "e": shared, "f": {"g": {}}}
    assert described(pickle.dumps(thing, protocol)) == thing


@pytest.mark.parametrize("protocol", range(3, 6))
@pytest.mark.parametrize("array", [
    np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.float64(2.5), np.array(3.0),
    np.arange(4, dtype=np.float32), np.arange(3, dtype=">f8"), np.zeros((0, 2)), np.arange(3),
])  # fmt: skip
def test_arrays_are_read(array: np.ndarray, protocol: int) -> None:
    np.testing.assert_array_equal(numbers(described(pickle.dumps(array, protocol))), array)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_what_would_be_called_is_written_down(protocol: int, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    found = described(pickle.dumps([Bomb(canary), OrderedDict(a=1), Path("x")], protocol))
    assert all(isinstance(thing, Call) for thing in found)
    assert not canary.exists()
    assert found[1].items == [("a", 1)]


def test_numbers_that_are_none() -> None:
    for thing in (
        np.array(["x"]),
        np.array([None]),
        np.zeros(3, "M8[s]"),
        Path("x"),
        [1.0],
        "x",
        np.zeros(2, np.complex128),
    ):
        with pytest.raises(DataError, match="it describes"):
            numbers(described(pickle.dumps(thing)))


def test_other_instructions_and_too_many_are_refused() -> None:
    """Old protocols, references out of the file, codes of the extension registry, marks without end: at once."""
    out = io.BytesIO()
    pickler = pickle.Pickler(out, 4)
    pickler.persistent_id = lambda thing: "x" if thing is os else None
    pickler.dump([os])
    started = time.perf_counter()
    for pickled, why in (
        (pickle.dumps([1.5], 0), "not read"), (out.getvalue(), "not read"), (b"\x80\x02\x82\x01.", "not read"),
        (b"\x80\x02" + b"(" * 10**6 + b".", "more instructions"), (b"", "pickle"), (b"\x80\x02", "pickle"),
        (b"\x80\x02.", "not a pickle"), (b"\x80\x02(\x85.", "not a pickle"), (b"\x80\x02K\x01K\x02R.", "not a pickle"),
        (b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f", "not a pickle"), (b"\x80\x02}]K\x01s.", "not a pickle"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=why):
            described(pickled)
    assert time.perf_counter() - started < 5
    assert MOST_INSTRUCTIONS < 10**6


def test_random_changes_are_refused_or_read() -> None:
    """Nothing but a DataError or a description comes out, whatever happens to the bytes."""
    raw = pickle.dumps({"a": np.arange(5.0), "b": [Path("x"), 1.5, "y"]}, 4)
    rng = np.random.default_rng(0)
    for _ in range(5000):
        changed = bytearray(raw)
        for at in rng.integers(len(raw), size=rng.integers(1, 4)):
            changed[at] = rng.integers(256)
        try:
            numbers(described(bytes(changed))["a"])
        except (DataError, KeyError, TypeError, IndexError):
            continue
