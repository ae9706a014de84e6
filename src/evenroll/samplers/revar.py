"""ReVar: more samples where rewards vary more (Mukherjee, Hanna and Nowak, UAI 2022, arXiv 2203.04510).

    b(a|s) ∝ π_e(a|s) √x(s, a) ,  x(s, a) = σ²(s, a) + γ² Σ p(s'|s, a) B(s')² ,  B(s) = Σ_a π_e(a|s) √x(s, a)

On tree-shaped MDPs this is optimal for the estimator that combines cell means with the known π_e, which is `fqe` here.
σ is not known. Paper: an upper confidence bound. Here: σ̂ (1 + 1/√n), with the pooled σ̂ where a cell has one visit; where
states can be visited again, x is iterated. Where rewards have no noise there is nothing to gain, and b = π_e.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Floats, Piece, piece
from evenroll.policies.interface import PolicyView
from evenroll.samplers.interface import END_EPISODE, SamplerView
from evenroll.samplers.tabular_model import (
    MAX_SWEEPS,
    TOLERANCE,
    Settings,
    TabularDesign,
    choose,
    columns,
    expected_next,
    fit_is_due,
    reward_moments,
    set_behavior,
    update,
)


@dataclass(frozen=True)
class ReVar(TabularDesign):
    """Draw actions in proportion to π_e and the standard deviation that their rewards cause, now and later, on a table."""

    name = "revar"

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "update": update, "end_episode": end_episode}


@helper
def reward_variances(policy: PolicyView, visits: Floats, rewards: Floats, squares: Floats, sigma2: Floats) -> None:
    """σ̂²(s, a), the unbiased variance of a cell's rewards, made larger where visits are few."""
    cells = policy.sizes.parameters
    total, freedom = 0.0, 0.0
    for i in range(cells):
        if visits[i] > 1.0:
            total += visits[i] * reward_moments(i, visits, rewards, squares)[1]
            freedom += visits[i] - 1.0
    pooled = total / freedom if freedom > 0.0 else 0.0
    for i in range(cells):
        if visits[i] > 0.0:
            own = reward_moments(i, visits, rewards, squares)[1]
            variance = own * visits[i] / (visits[i] - 1.0) if visits[i] > 1.0 else pooled
            bound = 1.0 + 1.0 / math.sqrt(visits[i])
            sigma2[i] = variance * bound * bound


@helper
def propagate(policy: PolicyView, sampler: SamplerView, visits: Floats, successors: Floats, sigma2: Floats) -> None:
    """Compute x from σ² by sweeps. B² is kept for every state."""
    _, _, _, _, _, x, _, squared, _ = columns(policy, sampler)
    n, states, gamma = policy.sizes.outputs, policy.sizes.inputs, Settings(sampler.settings).gamma
    for s in range(states):
        squared[s] = 0.0
    for _ in range(MAX_SWEEPS):
        for i in range(n * states):
            if visits[i] > 0.0:
                x[i] = sigma2[i] + gamma * gamma * expected_next(i, states, visits, successors, squared)
        change, size = 0.0, 0.0
        for s in range(states):
            total, known = 0.0, 0.0
            for i in range(s * n, s * n + n):
                if visits[i] > 0.0:
                    total += policy.aux[i] * math.sqrt(x[i])
                    known += policy.aux[i]
            if known > 0.0:
                after = total * total / (known * known)
                change, size = max(change, abs(after - squared[s])), max(size, after)
                squared[s] = after
        if change <= TOLERANCE * size:
            break


@piece(END_EPISODE)
def end_episode(policy: PolicyView, sampler: SamplerView, episode_return: float, log_weight: float) -> None:
    if fit_is_due(sampler):
        visits, rewards, squares, _, sigma2, x, successors, _, _ = columns(policy, sampler)
        reward_variances(policy, visits, rewards, squares, sigma2)
        propagate(policy, sampler, visits, successors, sigma2)
        set_behavior(policy, sampler, x)
