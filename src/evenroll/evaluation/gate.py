"""A gate for continuous integration: may the new policy take the place of the old one?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenroll.adapters.normalization import Normalization
from evenroll.evaluation.deciding import NOT_WORSE, WORSE, Question
from evenroll.evaluation.difference import ask
from evenroll.evaluation.difference_result import Difference
from evenroll.evaluation.evaluate import Progress
from evenroll.samplers.table import SamplerLike

EXIT = {NOT_WORSE: 0, WORSE: 1}  # what a shell is told; anything else is UNKNOWN
UNKNOWN = 3


def gate(
    env: Any,
    new: Any,
    old: Any,
    *,
    margin: float = 0.0,
    most: int = 200,
    quantity: str = "return",
    sampler: SamplerLike = "auto",
    gamma: float | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    horizon: int | None = None,
    deterministic: bool = False,
    resets: int | None = None,
    workers: int | None = None,
    executor: str | None = None,
    spool: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    warned: tuple[str, ...] = (),
    normalization: Normalization | None = None,
) -> Difference:
    """Is the new policy worse than the old one by more than the margin? Pairs of episodes are collected until that is clear.

    The verdict of the result is "not worse", "worse" or "undecided". It is wrong with probability 1 − confidence at most.
    Without a margin only a policy that is better can be shown not to be worse. So give the margin that you can live with.
    The other arguments are those of `difference(until="decided")`.
    """
    return ask(
        env, new, old, Question(margin, gate=True), sampler=sampler, pairs=most, quantity=quantity, gamma=gamma, seed=seed,
        confidence=confidence, horizon=horizon, deterministic=deterministic, resets=resets, initial=(None, None),
        progress=progress, warned=warned, workers=workers, executor=executor, spool=spool, normalization=normalization,
    )  # fmt: skip


def exit_code(result: Difference) -> int:
    """0 if the policy may pass, 1 if it is worse, 3 if that could not be told."""
    return EXIT.get(result.verdict or "", UNKNOWN)


def in_a_line(result: Difference) -> str:
    """The verdict, and what it rests on, in one line."""
    word = {0: "PASS", 1: "FAIL", UNKNOWN: "UNKNOWN"}[exit_code(result)]
    return f"{word}: {result.in_words()}"
