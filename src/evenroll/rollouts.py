"""The data: trajectories as columns. Initial data, if any, comes first; only the last trajectory may be unfinished."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.errors import DataError


@dataclass(frozen=True)
class Rollouts:
    """n finished trajectories (and perhaps an unfinished one), N steps in all.

    returns      [n] discounted return g(H)               ends        [n] steps up to and including each trajectory
    terminated   [n] ended by the environment, else by the horizon (truncated)
    log_weights  [n] Σ log π_e − log π_b over the trajectory, or None if not recorded
    observations [N, obs], actions [N, dim], rewards [N], log_e [N], log_b [N], or None if not recorded
    initial_episodes, initial_steps: how much of it is initial data D₁
    """

    gamma: float
    steps: int
    returns: np.ndarray
    ends: np.ndarray
    terminated: np.ndarray
    log_weights: np.ndarray | None = None
    observations: np.ndarray | None = None
    actions: np.ndarray | None = None
    rewards: np.ndarray | None = None
    log_e: np.ndarray | None = None
    log_b: np.ndarray | None = None
    initial_episodes: int = 0
    initial_steps: int = 0

    @property
    def episodes(self) -> int:
        """Finished trajectories."""
        return len(self.returns)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.ends, prepend=0)

    @property
    def truncated(self) -> int:
        return int(self.episodes - self.terminated.sum())

    @property
    def unfinished(self) -> int:
        """Trajectories begun and not ended: 0 or 1."""
        return int(self.steps > (self.ends[-1] if self.episodes else 0))

    def prefix(self, new_steps: int) -> Rollouts:
        """All initial data and the first `new_steps` steps after it."""
        total = self.initial_steps + new_steps
        if total > self.steps:
            raise DataError(f"{new_steps} new steps were asked for, {self.steps - self.initial_steps} were collected")
        n = int(np.searchsorted(self.ends, total, side="right"))
        cut = lambda x, m: None if x is None else x[:m]  # noqa: E731
        return dataclasses.replace(
            self, steps=total, returns=self.returns[:n], ends=self.ends[:n], terminated=self.terminated[:n],
            log_weights=cut(self.log_weights, n), observations=cut(self.observations, total),
            actions=cut(self.actions, total), rewards=cut(self.rewards, total), log_e=cut(self.log_e, total),
            log_b=cut(self.log_b, total),
        )  # fmt: skip

    def split_initial(self) -> tuple[Rollouts, Rollouts]:
        """(initial data, data collected after it)."""
        n, m = self.initial_episodes, self.initial_steps
        cut = lambda x, part: None if x is None else x[part]  # noqa: E731
        parts = []
        for episodes, steps, count in ((slice(0, n), slice(0, m), m), (slice(n, None), slice(m, None), self.steps - m)):
            parts.append(
                Rollouts(
                    self.gamma, count, self.returns[episodes], self.ends[episodes] - steps.start, self.terminated[episodes],
                    cut(self.log_weights, episodes), cut(self.observations, steps), cut(self.actions, steps),
                    cut(self.rewards, steps), cut(self.log_e, steps), cut(self.log_b, steps),
                )  # fmt: skip
            )
        return parts[0], parts[1]

    def after(self, initial: Rollouts) -> Rollouts:
        """This data preceded by `initial`, which must end with a finished trajectory."""
        if initial.unfinished:
            raise DataError("initial data must consist of finished trajectories")

        def join(a: Any, b: Any) -> np.ndarray | None:
            return None if a is None or b is None else np.concatenate([a, b])

        return Rollouts(
            self.gamma, initial.steps + self.steps, np.concatenate([initial.returns, self.returns]),
            np.concatenate([initial.ends, self.ends + initial.steps]),
            np.concatenate([initial.terminated, self.terminated]), join(initial.log_weights, self.log_weights),
            join(initial.observations, self.observations), join(initial.actions, self.actions),
            join(initial.rewards, self.rewards), join(initial.log_e, self.log_e), join(initial.log_b, self.log_b),
            initial_episodes=initial.episodes, initial_steps=initial.steps,
        )  # fmt: skip

    def column(self, name: str) -> np.ndarray:
        """A column that must have been recorded."""
        value = getattr(self, name)
        if value is None:
            raise DataError(f"these rollouts were collected without {name}")
        return np.asarray(value)
