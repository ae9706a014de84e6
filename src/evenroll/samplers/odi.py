"""ODI: behaviour that lowers the variance of per-decision importance sampling (Liu and Zhang, arXiv 2301.13734).

    b(a|s) ∝ π_e(a|s) √û(s, a) ,   û(s, a) = 2 r̄ q − r̄² + Var r + γ² Σ p(s'|s, a) Σ π_e(a'|s') û(s', a')

û is itself an action value, namely for the reward 2rq − r², and equals E[G²|s, a]. Paper: rewards without noise (no Var r),
a network fitted to offline data, time in the state. Here: a table, the counts of the data so far, no time in the state.
The data is meant for `pdis` (or `ois`): its plain mean estimates the value of the behaviour, not of π_e.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Piece, piece
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
class ODI(TabularDesign):
    """Draw actions in proportion to π_e √E[G²|s, a], where E[G²|s, a] is the return's second moment, on a table."""

    name = "odi"

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "update": update, "end_episode": end_episode}


@helper
def second_moments(policy: PolicyView, sampler: SamplerView) -> None:
    """Compute q and û of the counted model by sweeps. v(s) = Σ π q and w(s) = Σ π û are over the actions taken so far."""
    visits, rewards, squares, _, q, u, successors, v, w = columns(policy, sampler)
    n, states, gamma = policy.sizes.outputs, policy.sizes.inputs, Settings(sampler.settings).gamma
    for s in range(states):
        v[s], w[s] = 0.0, 0.0
    for _ in range(MAX_SWEEPS):
        for i in range(n * states):
            if visits[i] > 0.0:
                r, noise = reward_moments(i, visits, rewards, squares)
                q[i] = r + gamma * expected_next(i, states, visits, successors, v)
                follows = gamma * gamma * expected_next(i, states, visits, successors, w)
                u[i] = max(2.0 * r * q[i] - r * r + noise + follows, 0.0)
        change, size = 0.0, 0.0
        for s in range(states):
            value, moment, known = 0.0, 0.0, 0.0
            for i in range(s * n, s * n + n):
                if visits[i] > 0.0:
                    value += policy.aux[i] * q[i]
                    moment += policy.aux[i] * u[i]
                    known += policy.aux[i]
            if known > 0.0:
                change = max(change, abs(moment / known - w[s]))
                size = max(size, moment / known)
                v[s], w[s] = value / known, moment / known
        if change <= TOLERANCE * size:
            break


@piece(END_EPISODE)
def end_episode(policy: PolicyView, sampler: SamplerView, episode_return: float, log_weight: float) -> None:
    if fit_is_due(sampler):
        second_moments(policy, sampler)
        set_behavior(policy, sampler, columns(policy, sampler)[5])
