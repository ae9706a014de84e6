"""Asking a policy twice: only what answers the same way again is a function of its observation."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from evenroll.adapters.spaces import Observations

ALONE = (
    3  # how many observations are asked about one by one, which a policy that keeps a state for each row answers otherwise
)
ENOUGH = 2000  # the most questions to a function, …
PATIENCE = 0.2  # … and about how many seconds they may take; beyond the first two rounds, a choice


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Leave the global random numbers of Python, NumPy and torch as they were."""
    python, numpy_state, torch = random.getstate(), np.random.get_state(), sys.modules.get("torch")
    torch_state = None if torch is None else torch.random.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy_state)
        if torch is not None:
            torch.random.set_rng_state(torch_state)


def answers_alike(
    ask: Callable[[Any], np.ndarray], same: Callable[[np.ndarray, np.ndarray], bool], observations: Observations, probes: Any
) -> bool:
    """Whether a policy gives the same answers again: to the same observations, in another order, and one by one.

    ask   observations [n, …] → rows [n, …]
    same  whether two sets of rows are the same, up to rounding
    """
    first = ask(probes)
    backwards = np.arange(len(first))[::-1]
    finite = np.isfinite(first).all(axis=1)  # what is not finite is reported where it acts

    def again(which: np.ndarray) -> bool:
        answers, sound = ask(observations.take(probes, which)), finite[which]
        return len(answers) == len(which) and same(answers[sound], first[which][sound])

    alone = (np.array([i]) for i in range(min(ALONE, len(first))))
    return all(again(which) for which in (backwards[::-1], backwards, *alone))


def decides_alike(decide: Callable[[Any], Any], probes: list[Any]) -> bool:
    """Whether a function of one observation gives the same action whenever it is asked.

    A function that draws gives another action only now and then, so it is asked many times, in changing order.
    """
    first = [decide(x) for x in probes]
    rng, asked, started = np.random.default_rng(0), 0, time.perf_counter()
    while asked < len(first) or (asked < ENOUGH and time.perf_counter() - started < PATIENCE):
        for i in rng.permutation(len(first)):
            if not np.array_equal(decide(probes[i]), first[i]):
                return False
        asked += len(first)
    return True
