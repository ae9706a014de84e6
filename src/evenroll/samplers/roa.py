"""Robust on-policy acting: with probability ρ take the action that brings the mean score nearest to zero, else a ~ π_e.

The paper does not describe this method; it is in the code that the paper's authors released:

    a = argmin_a ‖(S + g(s, a)) / (k + 1)‖₁ ,   g(s, a) = ∇ log π_e(a|s), all parameters

The candidates are all actions that π_e takes. For a Gaussian they are the quantiles i/(n+1) of each dimension: one dimension
is searched after the other, and the others stay at their best value so far, which is the median at first. Where some action
has probability 1, a ~ π_e. One uniform number u decides both: if u < ρ there is a search, and else (u − ρ)/(1 − ρ) is
uniform again. So ρ = 0 is OS bit for bit.

Behaviour probabilities. For a discrete action they are (1 − ρ) π_e(a) + ρ 1{a = argmin}. For real actions the search puts
mass on single points, to which π_e gives probability 0. The weight dπ_e/dπ_b is therefore 0 where the search chose
(log π_b = +∞) and 1/(1 − ρ) elsewhere: ordinary importance sampling stays unbiased, and shows how little of ROA's data it
can use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Floats, Piece, Reals, piece, real, shift
from evenroll.engine.simd import add, aligned, dot, load, multiply, narrow, over_columns, relu, splat, width_of
from evenroll.engine.views import Fields, beyond
from evenroll.policies import Policy
from evenroll.policies.interface import PolicyView, add_score, draw, forward, log_prob
from evenroll.samplers.base import Sampler, require
from evenroll.samplers.interface import CHOOSE, LOG_BEHAVIOR, UPDATE, SamplerView

CERTAIN = 1.0 - 1e-12  # a probability of 1, up to rounding
EDGE = 2.0**-53  # the smallest uniform number that the loop hands out (`engine.random.uniform`)
TIE = 1e-12  # on a table all actions short of a whole count are equally good: the first is taken, rounding must not decide
MISSING, FOUND, TAKEN = 0.0, 1.0, 2.0  # the argmin of this state is not looked for yet, known, or known and acted on


class Settings(Fields):
    rho: float
    candidates: float
    actions: float  # how many actions there are; 0 if they are real
    obs: float  # length of an observation


class Memory(Fields):
    """Behind these entries follow the observation; then the argmin, a candidate and its uniform numbers.

    The last three are each as long as an action.
    """

    status: float  # what is known of the argmin: MISSING, FOUND or TAKEN
    total: float  # a sum in progress


@dataclass(frozen=True)
class ROA(Sampler):
    """Take, with probability rho, the candidate action that leaves the smallest ‖Σ ∇log π_e‖₁, else an action of π_e."""

    rho: float
    candidates: int = 9
    name = "roa"

    def __post_init__(self) -> None:
        require(0.0 <= self.rho <= 1.0, f"roa: rho must lie in [0, 1], not {self.rho}")
        require(self.candidates >= 1, f"roa: candidates must be at least 1, not {self.candidates}")

    def _shown(self) -> list[tuple[str, Any]]:
        return super()._shown() if self.candidates != 9 else [("rho", self.rho)]

    def check(self, policy: Policy) -> None:
        several = policy.n_actions is None and policy.choices
        require(not several, "roa: several discrete actions at once are not searched; use auto")

    def work(self, policy: Policy) -> int:
        """Every candidate has a score to add up, in every dimension."""
        return (policy.n_actions or self.candidates * policy.action_dim) * policy.parameters

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose, "log_behavior": log_behavior, "update": update}

    def settings(self, policy: Policy, value: float, gamma: float) -> np.ndarray:
        return np.array([self.rho, self.candidates, policy.n_actions or 0, policy.obs_dim])

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        both = np.zeros(2 * policy.parameters, dtype=policy.dtype)  # S, and S + g for a candidate
        return aligned(both, policy.first_weight), np.zeros(Memory.count + policy.obs_dim + 3 * policy.action_dim)


@over_columns(8)
def _add_magnitudes(size: int) -> Any:
    """Memory.total += Σ |x|."""

    def columns(o: int, v: Reals, memory: Floats) -> None:
        x, one, minus = load(v, o, size), splat(narrow(1.0, v), size), splat(narrow(-1.0, v), size)
        Memory(memory).total += dot(add(relu(x), relu(multiply(x, minus))), one)

    return columns


@helper
def _imbalance(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, lanes: int) -> float:
    """‖S + g(s, a)‖₁. The division by k + 1 is left out, because it is the same for all candidates."""
    n = policy.sizes.parameters
    memory, S, candidate = Memory(sampler.memory), sampler.vectors, shift(sampler.vectors, n)
    for i in range(n):
        candidate[i] = S[i]
    add_score(policy, obs, action, 1.0, candidate)
    memory.total = 0.0
    _add_magnitudes(n, lanes, candidate, sampler.memory)
    return memory.total


@helper
def _search(policy: PolicyView, sampler: SamplerView, obs: Floats, lanes: int) -> bool:
    """Find the argmin, after a forward pass in this state. Returns False where an action has probability 1."""
    settings, dim = Settings(sampler.settings), policy.sizes.action_dim
    candidates, n_actions = int(settings.candidates), int(settings.actions)
    best = shift(beyond(Memory(sampler.memory)), int(settings.obs))
    trial, u = shift(best, dim), shift(best, 2 * dim)
    lowest = math.inf
    if n_actions > 0:
        for a in range(n_actions):
            trial[0] = a
            log_p = log_prob(policy, policy.out, trial)
            if log_p >= math.log(CERTAIN):
                return False
            if log_p > -math.inf:
                norm = _imbalance(policy, sampler, obs, trial, lanes)
                if norm < lowest * (1.0 - TIE):
                    lowest, best[0] = norm, a
        return True
    for i in range(dim):
        u[i] = 0.5
    for i in range(dim):
        lowest, kept = math.inf, 0.5
        for c in range(candidates):
            u[i] = (c + 1.0) / (candidates + 1.0)
            draw(policy, u, trial)  # a quantile of π_e: the outputs at θ_b are still those at θ_e
            norm = _imbalance(policy, sampler, obs, trial, lanes)
            if norm < lowest * (1.0 - TIE):
                lowest, kept = norm, u[i]
        u[i] = kept
    draw(policy, u, best)
    return True


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    settings, memory = Settings(sampler.settings), Memory(sampler.memory)
    rho, n_obs, seen = settings.rho, int(settings.obs), beyond(memory)
    forward(policy, sampler.vectors, 0.0, obs)
    for i in range(n_obs):
        seen[i] = obs[i]
    memory.status = MISSING
    if u[0] < rho:
        u[0] /= rho  # uniform again, in case the action is drawn from π_e after all
        if _search(policy, sampler, obs, width_of(real)):
            memory.status = TAKEN
            for i in range(policy.sizes.action_dim):
                action[i] = seen[n_obs + i]
        else:
            draw(policy, u, action)
    else:
        u[0] = min(max((u[0] - rho) / (1.0 - rho), EDGE), 1.0 - EDGE)
        draw(policy, u, action)


@piece(LOG_BEHAVIOR)
def log_behavior(policy: PolicyView, sampler: SamplerView, action: Floats) -> float:
    settings, memory = Settings(sampler.settings), Memory(sampler.memory)
    rho, discrete = settings.rho, settings.actions > 0.0
    log_e = log_prob(policy, policy.out, action)
    if rho == 0.0:
        return log_e
    if not discrete:
        return math.inf if memory.status == TAKEN else math.log(1.0 - rho) + log_e
    if memory.status == MISSING:
        if not _search(policy, sampler, beyond(memory), width_of(real)):
            return log_e
        memory.status = FOUND
    is_best = action[0] == beyond(memory)[int(settings.obs)]
    return math.log((1.0 - rho) * math.exp(log_e) + (rho if is_best else 0.0))


@piece(UPDATE)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    add_score(policy, obs, action, 1.0, sampler.vectors)  # S += g(s, a)
