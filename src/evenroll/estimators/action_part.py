"""The luck of the actions in each episode's return: what it consists of, and what a fit of it needs to know of the steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.engine import border
from evenroll.errors import DataError

MEDIAN_OF_CHI_SQUARE = 0.4549  # with one degree of freedom


@dataclass(frozen=True)
class ActionPart:
    """C_i = Σ_t γᵗ Â(s_t, a_t) of every episode, where Â(s, a) estimates how much better the action is than the average one.

    Â may have been learnt in K ways; which of them is used is chosen later, by what it explains (`corrections.py`).

    apart     C of every episode in every way, [n, K], with an Â that was learnt from the other folds (groups of episodes)
              than its own
    together  gives, for one of the K ways, the mean of C over all episodes with an Â that was learnt from all of them
    firm      for each of the K ways the one that `together` should be asked for instead: the same, but held back most. What
              a sampler leaves unbalanced are directions that occur seldom, where Â knows least. None: there is no other way
    loose     how unbalanced the scores S are, relative to independent data: the median of S²/Var(S), 0 … 1
    unseen    see `ScoreRegression`
    inside    gives, for one of the K ways, C of every episode [n] with an Â that was learnt from all episodes, its own
              among them. None: it is not known

    Which of the two means is right depends on how the data was collected. The errors of Â follow the imbalance S of the
    data that it was learnt from. If the folds are independent, `apart` is free of that, because an episode had no part in
    its own Â; `together` is biased, because Â and C share the same S. But a sampler that balances S over the whole data
    gives each fold just the S that the other folds lack. Then it is `apart` that is biased (by 1.4 standard errors, with
    auto on CartPoleContinuous and 512 episodes), while `together` is not: the S that it could follow is 0. Between these
    two extremes the two are mixed, in proportion to `loose`.
    """

    apart: np.ndarray
    together: Callable[[int], float]
    loose: float
    unseen: float
    firm: tuple[int, ...] | None = None
    inside: Callable[[int], np.ndarray] | None = None

    def negative(self) -> ActionPart:
        """The part of the same luck in minus the return, for a difference."""
        inside = self.inside
        return replace(
            self, apart=-self.apart, together=lambda way: -self.together(way),
            inside=None if inside is None else lambda way: -inside(way),
        )  # fmt: skip


class Steps:
    """The steps of the finished episodes, with what a fit needs to know of each. Episode i belongs to fold i mod `folds`."""

    def __init__(self, rollouts: Rollouts, folds: int) -> None:
        # Compiled code relies on the ends.
        self.ends = border.ends("the ends of the data", rollouts.ends, rollouts.steps, DataError)
        self.n, self.lengths = rollouts.episodes, rollouts.lengths
        total = int(self.ends[-1]) if self.n else 0
        self.rollouts = rollouts
        kept = rollouts.observations
        self.observations = np.zeros((total, 0)) if kept is None else kept[:total]
        self.actions = rollouts.column("actions")[:total]
        self.rewards = rollouts.column("rewards")[:total]
        self.returns, self.terminated = rollouts.returns, rollouts.terminated
        self.gamma, self.folds = rollouts.gamma, folds
        self.episode = np.repeat(np.arange(self.n), self.lengths)
        self.t = np.arange(total) - np.repeat(self.ends - self.lengths, self.lengths)
        self.discount = self.gamma ** self.t.astype(np.float64)

    @property
    def states(self) -> np.ndarray:
        return np.asarray(self.observations[:, 0].astype(np.int64))

    @property
    def choices(self) -> np.ndarray:
        return np.asarray(self.actions[:, 0].astype(np.int64))

    @property
    def fold(self) -> np.ndarray:
        return np.asarray(self.episode % self.folds)

    def discounted_to_go(self) -> np.ndarray:
        """γᵗ Σ_{u ≥ t} γ^{u−t} r_u: what the episode still earns, as it counts in the return."""
        gains = self.discount * self.rewards
        before = np.cumsum(gains) - gains
        totals = np.bincount(self.episode, gains, minlength=self.n)
        so_far = before - np.repeat(before[self.ends - self.lengths], self.lengths)
        return np.asarray(np.repeat(totals, self.lengths) - so_far)

    def per_episode(self, values: np.ndarray) -> np.ndarray:
        """The sum over the steps of each episode, [n]."""
        return np.bincount(self.episode, values, minlength=self.n)


def without(parts: np.ndarray, k: int) -> np.ndarray:
    """The sum over all folds but the k-th; a single fold stands for itself."""
    return np.asarray(parts[0] if len(parts) == 1 else np.delete(parts, k, axis=0).sum(axis=0))


def median_square(z_squared: np.ndarray) -> float:
    """The median of some squares, divided by the median square of a standard normal variable. It is 1 if there are none.

    The median is used because features that fire rarely leave outliers among the squares, which would rule their mean.
    """
    return float(np.median(z_squared)) / MEDIAN_OF_CHI_SQUARE if z_squared.size else 1.0
