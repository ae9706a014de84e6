"""Names for the entries of an array: in Python and compiled they are the same places."""

from __future__ import annotations

import numpy as np
import pytest
from numba import int64, njit

from evenroll.engine.views import Fields, beyond


class Account(Fields):
    balance: float
    interest: float
    years: float


class Hours(Fields, number=int64):
    whole: int


def _a_year(array: np.ndarray) -> float:
    account = Account(array)
    account.balance *= 1.0 + account.interest
    account.years += 1.0
    return account.balance


_a_year_compiled = njit(_a_year)


@njit
def _after_the_names(array: np.ndarray) -> float:
    rest = beyond(Account(array))
    rest[1] = 7.0
    return rest[0]


def test_names_are_places_in_the_order_of_the_class() -> None:
    assert (Account.names, Account.count) == (("balance", "interest", "years"), 3)
    assert (Hours.names, Hours.number) == (("whole",), int64)
    array = np.array([1.0, 2.0, 3.0, 4.0])
    account = Account(array)
    assert (account.balance, account.interest, account.years) == (1.0, 2.0, 3.0)
    account.years = 9.0
    np.testing.assert_array_equal(array, [1.0, 2.0, 9.0, 4.0])
    with pytest.raises(AttributeError):
        account.debts  # noqa: B018


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_compiled_and_python_do_the_same(dtype: type) -> None:
    here, there = (np.array([100.0, 0.05, 3.0, 55.0], dtype=dtype) for _ in range(2))
    assert _a_year(here) == pytest.approx(_a_year_compiled(there), rel=1e-6)
    np.testing.assert_allclose(here, there, rtol=1e-6)
    np.testing.assert_allclose(here, [105.0, 0.05, 4.0, 55.0], rtol=1e-6)


def test_what_has_no_name_lies_behind_what_has() -> None:
    array = np.arange(6.0)
    assert _after_the_names(array) == 3.0
    np.testing.assert_array_equal(array, [0.0, 1.0, 2.0, 3.0, 7.0, 5.0])
