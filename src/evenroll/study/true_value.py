"""v(π_e): exact where the domain is finite, otherwise from very many on-policy rollouts, with a standard error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evenroll.collection.trial import Driver
from evenroll.domains.domain import Domain, Truth
from evenroll.errors import SpecError
from evenroll.executors.pool import get_pool, in_order
from evenroll.policies import Policy
from evenroll.samplers import OnPolicy

BLOCK = 20_000  # episodes per random stream; it is fixed, so that the result does not depend on the number of workers


def value_by_rollouts(
    domain: Domain,
    policy: Policy,
    episodes: int,
    *,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Truth:
    """The mean return of `episodes` on-policy episodes, rounded up to whole blocks."""
    if domain.redrawn:
        raise SpecError(f"{domain} has another environment in every trial: rollouts in one of them do not tell its value")
    blocks = max(1, -(-episodes // BLOCK))
    env = domain.environment(None)

    def block(i: int) -> tuple[float, float, float]:
        driver = Driver(policy, OnPolicy(), (seed, 11, i), gamma=domain.gamma, horizon=domain.horizon)
        data = driver.run(env, episodes=BLOCK)
        return float(data.returns.sum()), float((data.returns**2).sum()), float(data.lengths.sum())

    sums = in_order(block, range(blocks), get_pool("threads", workers), progress)
    n = blocks * BLOCK
    total, squares, steps = np.array(sums).sum(axis=0)
    variance = max(0.0, float(squares - total**2 / n) / (n - 1))
    return Truth(float(total / n), float(np.sqrt(variance / n)), float(steps / n), variance)


def truth(
    domain: Domain,
    policy: Policy,
    *,
    episodes: int = 1_000_000,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Truth:
    """The best available value of a policy: the known one, or else that of rollouts."""
    domain.environment(None).check(policy)
    known = domain.known_truth(policy)
    if known is not None:
        return known
    return value_by_rollouts(domain, policy, episodes, seed=seed, workers=workers, progress=progress)
