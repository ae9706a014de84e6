"""What an environment says at the end of an episode, and how it is kept."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from evenroll.collection.recorded import success_of
from evenroll.errors import EvenrollError, SpecError


@pytest.mark.parametrize(
    ("info", "flag"),
    [
        ({"is_success": True}, 1.0),
        ({"is_success": False}, 0.0),
        ({"success": np.bool_(True)}, 1.0),
        ({"success": np.array([0])}, 0.0),
        ({"success": 1.0}, 1.0),
        ({"is_success": False, "success": True}, 0.0),  # the first of the two names counts
        ({"is_success": None, "success": True}, 1.0),
        ({"is_success": 0.3}, math.nan),  # a score or a rate is no success
        ({"success": -1}, math.nan),
        ({"success": 2}, math.nan),
        ({"success": math.nan}, math.nan),
        ({"reward": 1.0}, math.nan),
        (None, math.nan),
    ],
)
def test_a_success_is_a_truth_value(info: Any, flag: float) -> None:
    assert success_of(info) == pytest.approx(flag, nan_ok=True)


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"success": [True, False]}, r"info\['success'\] must be one truth value, not \[2\] of them"),
        ([1, 2], "info must be a dictionary, not a list"),
        ({"is_success": "yes"}, "is_success"),
    ],
)
def test_what_is_none(info: Any, words: str) -> None:
    with pytest.raises((SpecError, EvenrollError), match=words):
        success_of(info)
