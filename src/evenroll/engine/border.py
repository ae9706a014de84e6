"""The border: every number that reaches compiled code from outside passes one of the entrances below.

Compiled pieces work on addresses. They take a state for a place in memory and do not look whether it lies in their arrays,
which makes them fast, and deadly for a process that hands them a wrong number. So whoever calls them passes what came from
elsewhere (a user, an environment, a file) through here first: its shape, its type, its count and its range are checked, and
what is wrong becomes an error of the caller's kind that names it. An entrance never changes what it is given. What it gives
back has the type and the layout that compiled code expects; it is a new array only where it must be.

`tests/engine/test_border.py` lists the public functions behind these entrances and attacks each of them in a child process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenroll.errors import EvenrollError, SpecError

REAL = "fiub"  # the kinds of numbers that are real: floating point, whole with and without a sign, truth values
EXACT = 2**53  # the largest whole number up to which double precision has all of them

Kind = type[EvenrollError]


def numbers(what: str, x: Any, kind: Kind = SpecError) -> np.ndarray:
    """x as an array of real numbers. Text, dates, complex numbers, objects and ragged lists are refused."""
    try:
        array = np.asarray(x)
    except Exception as error:  # whatever the conversion of a foreign object raises
        raise kind(f"{what} cannot be read as numbers ({type(error).__name__})") from None
    if array.dtype.kind not in REAL:
        raise kind(f"{what} must be real numbers, not of type {array.dtype}")
    if array.dtype.itemsize > 8 or not array.dtype.isnative:  # neither torch nor compiled code can read them
        with np.errstate(over="ignore"):
            array = array.astype(np.float64)
    return array


def shaped(what: str, x: Any, shape: tuple[int, ...], kind: Kind = SpecError, dtype: Any = np.float64) -> np.ndarray:
    """x as a contiguous array of this type, if it has this shape and all of it is finite."""
    array = numbers(what, x, kind)
    if array.shape != shape:
        raise kind(f"{what} must have shape {list(shape)}, not {list(array.shape)}")
    with np.errstate(over="ignore"):  # what is too large for the type becomes infinite, and is refused as such
        array = np.require(array, dtype, ["C", "W", "E"])
    if not np.isfinite(array).all():
        raise kind(f"{what} must be finite")
    return array.reshape(shape)  # a single number has become a row


def single(what: str, x: Any, length: int, kind: Kind = SpecError) -> np.ndarray:
    """One observation or action as [length]. A plain number stands for a row of one."""
    array = numbers(what, x, kind)
    return shaped(what, array.reshape(1) if array.ndim == 0 and length == 1 else array, (length,), kind)


def rows(what: str, x: Any, width: int, kind: Kind = SpecError, count: int | None = None) -> np.ndarray:
    """Rows [count, width]. Without a count there may be any number of them."""
    array = numbers(what, x, kind)
    n = len(array) if count is None and array.ndim == 2 else (count or 0)
    return shaped(what, array, (n, width), kind)


def places(what: str, x: np.ndarray, counts: tuple[int, ...], kind: Kind = SpecError) -> np.ndarray:
    """The rows x [N, columns] themselves, if column i holds whole numbers from 0 to below counts[i].

    Compiled code takes them for places in memory. Without counts the numbers are no places, and anything goes.
    """
    if counts and not ((x >= 0) & (x < counts) & (x == np.floor(x))).all():
        raise kind(f"{what} outside 0 … {max(counts) - 1}")
    return x


def flags(what: str, x: Any, n: int, kind: Kind = SpecError) -> np.ndarray:
    """n truth values as an array of int64: true and false, or 1 and 0."""
    array = numbers(what, x, kind)
    if array.shape != (n,):
        raise kind(f"{what} must have shape [{n}], not {list(array.shape)}")
    if array.dtype.kind != "b" and not ((array == 0) | (array == 1)).all():
        raise kind(f"{what} must be true or false")
    return array.astype(np.int64)


def ends(what: str, x: Any, steps: int, kind: Kind = SpecError) -> np.ndarray:
    """The ends of trajectories that follow each other: whole numbers that grow, none beyond the number of steps."""
    array = numbers(what, x, kind)
    with np.errstate(invalid="ignore"):
        whole = np.require(array, np.int64, ["C", "W", "E"])
    if array.ndim != 1 or (whole != array).any() or (np.diff(whole, prepend=0) < 1).any() or (whole > steps).any():
        raise kind(f"{what} must grow from trajectory to trajectory and not exceed the {steps} steps")
    return whole


def memory(what: str, x: Any, dtype: Any, least: int = 0, kind: Kind = SpecError) -> np.ndarray:
    """An array that compiled code will write to: [n] with n ≥ least, of just this type, contiguous, and not read-only."""
    good = isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype == dtype and x.flags.c_contiguous and x.flags.writeable
    if not good or len(x) < least:
        raise kind(
            f"{what} must be an array of at least {least} numbers of type {np.dtype(dtype)}, in one piece and writable"
        )
    return np.asarray(x)
