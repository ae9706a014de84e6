"""Results that were not run: every number in them is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evenroll.study.blocks import BlockData, Work, resolve
from evenroll.study.results import Results, Trialled
from evenroll.study.targets import PaperTarget


def invented(target: PaperTarget, error: dict[str, float], trials: int = 200) -> Results:
    """Results in which a way to collect errs by a normal number times error[sampler]."""
    rng = np.random.default_rng(5)
    found = {}
    for work in target.wanted():
        known = resolve(work)
        spread = error[known.sampler.name]
        values = 1.0 + spread * rng.normal(size=(trials, len(known.columns), len(known.checkpoints)))
        found[work] = Trialled(work, BlockData(known.columns, known.checkpoints, values, np.zeros(trials, bool)))
    return Results(found)


def exact(target: PaperTarget, mse: Callable[[Work], float | np.ndarray], trials: int = 50) -> Results:
    """Results whose MSE at every checkpoint is exactly that of `mse`, with a relative standard error of ½/√(trials − 1).

    Half of the squared errors are half the MSE, and half are one and a half times the MSE. Their mean is the MSE and their
    standard deviation half of it. With 50 trials the 95 % interval of a ratio of two such MSEs is 0.82 to 1.22 times itself.
    """
    found = {}
    for work in target.wanted():
        known = resolve(work)
        squares = np.multiply.outer(np.where(np.arange(trials) % 2, 0.5, 1.5), np.ones((len(known.columns), 1)) * mse(work))
        signs = np.where(np.arange(trials) // 2 % 2, 1.0, -1.0)[:, None, None]
        values = 1.0 + signs * np.sqrt(np.broadcast_to(squares, (trials, len(known.columns), len(known.checkpoints))))
        found[work] = Trialled(work, BlockData(known.columns, known.checkpoints, values, np.zeros(trials, bool)))
    return Results(found)
