"""Every error evenroll raises on purpose. The message is one line that names the cause."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class EvenrollError(Exception):
    """The base of all errors that a user can cause or should see. The command line prints it and exits with code 2."""


class SpecError(EvenrollError):
    """A name, parameter or combination in a specification is not known or not possible."""


class PolicyError(EvenrollError):
    """A policy or policy file is malformed, mis-shaped, non-finite or does not fit the domain."""


class CollectionFault(EvenrollError):
    """Something went wrong while collecting. What was finished before it is kept.

    episode, step  where it happened, counted from 0
    seed           the seed of that episode's environment, or of the whole run
    rollouts       the trajectories that had finished (`evenroll.Rollouts`), or None; of `difference` a pair
    """

    def __init__(
        self,
        message: str,
        *,
        episode: int | None = None,
        step: int | None = None,
        seed: int | None = None,
        rollouts: Any = None,
    ) -> None:
        super().__init__(message)
        self.episode, self.step, self.seed, self.rollouts = episode, step, seed, rollouts


class EnvironmentFault(CollectionFault):
    """The environment did something that makes the data worthless (a non-finite reward, for example)."""


class PolicyFault(CollectionFault, PolicyError):
    """The policy's outputs were not finite, or it took an action of probability 0."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or another signal that asks to stop, came while collecting. What was finished before it is kept.

    Like every KeyboardInterrupt it is not caught by `except Exception`.

    rollouts  the trajectories that had finished (`evenroll.Rollouts`), initial data in front, or None; of `difference` a
              pair, the second policy's behind the first's
    result    what they say (`evenroll.Evaluation` or `evenroll.Difference`, marked `interrupted`), or None if too few
              had finished. It is computed when it is asked for; whoever only wants to leave need not wait.
    """

    def __init__(self, message: str, *, rollouts: Any = None, find: Callable[[], Any] = lambda: None) -> None:
        super().__init__(message)
        self.rollouts, self._find = rollouts, find

    @functools.cached_property
    def result(self) -> Any:
        return self._find()


class DataError(EvenrollError):
    """Rollouts are inconsistent, or they lack a column that was asked for."""


class NoSuccess(DataError):
    """Success rates were asked for, and no episode says whether it succeeded."""


class NoEstimate(EvenrollError):
    """The data does not determine an estimate (no finished trajectory, for example)."""


class WorkersLost(EvenrollError):
    """The processes or machines that do the work keep dying."""
