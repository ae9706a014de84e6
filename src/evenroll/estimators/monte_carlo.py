"""Monte Carlo: the plain mean of the returns."""

from __future__ import annotations

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import NoEstimate


def monte_carlo(rollouts: Rollouts) -> float:
    """MC(D) = (1/n) Σᵢ g(Hᵢ) over finished trajectories (paper, Sec. 3.3)."""
    if rollouts.episodes == 0:
        raise NoEstimate("no trajectory has finished")
    return float(rollouts.returns.mean())
