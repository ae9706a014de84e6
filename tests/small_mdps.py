"""Random small MDPs in which every trajectory can be listed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.estimators.fqe import TableQ
from evenroll.policies import TabularSoftmax

END = -1


@dataclass(frozen=True)
class SmallMDP:
    """Every successor and start comes in two draws of probability ½ (they may agree); π_b in quarters."""

    successors: np.ndarray  # [S, A, 2], END for termination
    rewards: np.ndarray  # [S, A]
    starts: np.ndarray  # [2]
    quarters: np.ndarray  # [S, A] π_b · 4
    policy: TabularSoftmax  # π_e
    horizon: int
    gamma: float

    def value(self) -> float:
        """Dynamic programming over the steps to go."""
        v = np.zeros(len(self.rewards) + 1)  # the last entry is END
        for _ in range(self.horizon):
            q = self.rewards + self.gamma * v[self.successors].mean(axis=2)
            v[:-1] = (self.policy.table * q).sum(axis=1)
        return float(v[self.starts].mean())

    def trajectories(self) -> list[tuple[int, list[tuple[int, int]], bool]]:
        """(how often among 2·8^horizon, the steps (s, a), whether it terminated) under π_b."""
        found = []

        def walk(state: int, steps: list[tuple[int, int]], times: int) -> None:
            if state == END or len(steps) == self.horizon:
                found.append((times, steps, state == END))
                return
            for action, quarter in enumerate(self.quarters[state]):
                for successor in self.successors[state, action]:
                    walk(successor, [*steps, (state, action)], times * int(quarter) // 8)

        for start in self.starts:
            walk(start, [], 8**self.horizon)
        return [x for x in found if x[0]]

    def rollouts(self, listed: list[tuple[list[tuple[int, int]], bool]]) -> Rollouts:
        states, actions = np.array([step for steps, _ in listed for step in steps]).T
        rewards = self.rewards[states, actions]
        lengths = np.array([len(steps) for steps, _ in listed])
        discounts = np.concatenate([self.gamma ** np.arange(n) for n in lengths])
        ends = np.cumsum(lengths)
        with np.errstate(divide="ignore"):
            log_e = np.log(self.policy.table[states, actions])
        return Rollouts(
            self.gamma, int(ends[-1]), np.add.reduceat(discounts * rewards, ends - lengths), ends,
            np.array([over for _, over in listed]), observations=states[:, None].astype(float),
            actions=actions[:, None].astype(float), rewards=rewards, log_e=log_e,
            log_b=np.log(self.quarters[states, actions] / 4.0), horizon=self.horizon,
        )  # fmt: skip

    def population(self) -> Rollouts:
        """Every trajectory exactly as often as π_b makes it."""
        return self.rollouts([(steps, over) for times, steps, over in self.trajectories() for _ in range(times)])


def small_mdp(seed: int, horizon: int | None = None) -> SmallMDP:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 4))
    two = rng.integers(1, 4, size=n)
    pi = rng.dirichlet([0.7, 0.7], size=n)
    pi[rng.random(n) < 0.2] = [0.0, 1.0]
    return SmallMDP(
        rng.integers(END, n, size=(n, 2, 2)), rng.normal(size=(n, 2)), rng.integers(0, n, size=2),
        np.stack([two, 4 - two], axis=1), TabularSoftmax.from_probabilities(pi),
        horizon or int(rng.integers(1, 4)), float(rng.choice([0.5, 0.9, 1.0])),
    )  # fmt: skip


def random_q(mdp: SmallMDP, seed: int) -> TableQ:
    q = np.random.default_rng(seed).normal(size=(mdp.horizon + 1, *mdp.rewards.shape))
    return TableQ(q, (mdp.policy.table * q).sum(axis=2), mdp.policy)
