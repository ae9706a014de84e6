"""Compiled loops take tuples of arrays as addresses, and refuse arrays that these would be wrong for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import float32, float64, int64, uint64

from evenroll.engine.addresses import Addresses, pointers
from evenroll.engine.pieces import INTERPRETED, compiled


def _mix_kernel(numbers: Any, wholes: Any) -> float:
    a, b = pointers(numbers)
    k, seeds = pointers(wholes)
    a[0] += b[1]
    return a[1] + k[2] + seeds[0]


def mix() -> Any:
    return compiled(_mix_kernel, float64(Addresses((float64, float32)), Addresses((int64, uint64))))


def arrays() -> list[np.ndarray]:
    return [np.array([1.0, 2.0]), np.array([3.0, 4.0], np.float32), np.arange(3), np.array([7], np.uint64)]


def test_entries_are_read_and_written_in_place() -> None:
    a, b, k, seeds = arrays()
    assert mix()((a, b), (k, seeds)) == 2.0 + 2.0 + 7.0
    assert a.tolist() == [5.0, 2.0]


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@pytest.mark.skipif(INTERPRETED, reason="plain Python has no addresses")
@pytest.mark.parametrize(
    ("which", "other"),
    [
        (0, np.array([1.0, 2.0], np.float32)),
        (0, np.arange(4.0)[::2]),
        (1, np.array([3.0, 4.0])),
        (2, np.arange(3, dtype=np.int32)),
        (2, _read_only(np.arange(3))),
        (3, np.array([7], np.int64)),
    ],
)
def test_an_array_that_does_not_fit_is_refused(which: int, other: np.ndarray) -> None:
    a, b, k, seeds = (other if i == which else array for i, array in enumerate(arrays()))
    with pytest.raises(TypeError, match="do not fit"):
        mix()((a, b), (k, seeds))


@pytest.mark.skipif(INTERPRETED, reason="plain Python has no addresses")
def test_numpy_keeps_its_members_where_they_are_read() -> None:
    """The offsets are those of NumPy's C interface. Were they others, nothing above would work; this says which is wrong."""
    import ctypes

    from evenroll.engine import addresses

    array = np.arange(3.0)

    def at(place: int, kind: Any) -> int:
        return int(kind.from_address(place).value)

    assert at(id(array) + addresses.DATA, ctypes.c_void_p) == array.ctypes.data
    assert at(id(array) + addresses.FLAGS, ctypes.c_int) == array.flags.num
    dtype = at(id(array) + addresses.DTYPE, ctypes.c_void_p)
    assert dtype == id(array.dtype)
    assert at(dtype + addresses.TYPE_NUMBER, ctypes.c_int) == array.dtype.num
