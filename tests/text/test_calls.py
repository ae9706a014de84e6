"""A call of a Python function as the line that repeats it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evenroll.text.calls import written_call


def evaluate(env: Any, policy: Any = None, *, episodes: int = 100, bounds: Any = None, progress: Any = None) -> str:
    return written_call("evaluate", evaluate, locals())


def test_what_equals_its_default_is_left_out() -> None:
    assert evaluate("a'b") == 'evaluate("a\'b")'
    assert evaluate("x", None, episodes=100, progress=print) == "evaluate('x')"
    assert evaluate("x", "p.zip", episodes=5) == "evaluate('x', 'p.zip', episodes=5)"


def test_python_reads_the_same_values_again() -> None:
    line = evaluate(Path("a") / "b", episodes=np.int64(7), bounds=(0, np.float64(0.1)))
    assert line == "evaluate('a/b', episodes=7, bounds=(0, 0.1))"
    assert evaluate("x", bounds=(1,)) == "evaluate('x', bounds=(1,))"


def test_objects_stand_there_by_the_name_of_their_argument() -> None:
    assert evaluate(object(), lambda x: x, bounds=[1, 2]) == "evaluate(env, policy, bounds=bounds)"
    assert evaluate("x", np.zeros(2)) == "evaluate('x', policy)"  # an array is not compared with the default
