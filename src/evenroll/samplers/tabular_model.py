"""What `revar` and `odi` share: a model of a finite MDP counted from the data, and a table of behaviour probabilities.

The model keeps for each cell (s, a): visits, Σ r, Σ r², and how often each state came next. A trajectory's last step leads
nowhere, whether the trajectory terminated or reached the horizon. The behaviour table is π_e until `first` trajectories have
finished. From then on it is computed anew whenever their number has grown by a quarter. So a trajectory's behaviour is fixed
before it is sampled, and the cost of all fits together grows with the logarithm of the data.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Floats, piece, shift
from evenroll.engine.views import Fields, beyond
from evenroll.policies import Policy, TabularSoftmax
from evenroll.policies.interface import PolicyView, draw, forward, out_b
from evenroll.samplers.base import Sampler, require
from evenroll.samplers.interface import CHOOSE, UPDATE, SamplerView

LARGEST_MODEL = 400_000  # the most states² · actions: odi's fit with all its sweeps then takes half a second
MAX_SWEEPS = 1000  # a recursion may not converge (a policy that never ends); each sweep looks one step further ahead
TOLERANCE = 1e-10  # the sweeps stop when no value changes by more than this, relative to the largest
# How many visits the prior of a cell's strength counts for. The MSE of odi over that of OS, on the bandit with 2⁹ pulls, was
# 1.22 ± 0.10 with a prior of 0; 0.87 with 1, 0.88 with 3 and 0.90 with 10 (± 0.05).
PRIOR = 1.0


class Settings(Fields):
    first: float
    mix: float
    gamma: float


class Memory(Fields):
    """Behind these entries follow the columns of the counted model."""

    episodes: float  # finished trajectories
    next_fit: float  # the next fit comes when this many trajectories have finished
    last: float  # the cell of the last step; −1 at the start of a trajectory


@dataclass(frozen=True)
class TabularDesign(Sampler):
    """A behaviour table designed from counts.

    first  how many trajectories are sampled from π_e before the first design
    mix    the share of π_e in the behaviour, so that no step's weight exceeds 1/mix and every action stays possible
    """

    first: int = 10
    mix: float = 0.1
    whole_trials_only = "learns from rewards"

    def __post_init__(self) -> None:
        require(self.first >= 1, f"{self.name}: first must be at least 1, not {self.first}")
        require(0.0 <= self.mix <= 1.0, f"{self.name}: mix must lie in [0, 1], not {self.mix}")

    def _shown(self) -> list[tuple[str, Any]]:
        return [(f.name, getattr(self, f.name)) for f in dataclasses.fields(self) if getattr(self, f.name) != f.default]

    def check(self, policy: Policy) -> None:
        fits = isinstance(policy, TabularSoftmax)
        require(fits, f"{self.name} needs a tabular policy: it counts visits to states; use auto, ros or roa for networks")
        size = (policy.n_states or 0) ** 2 * (policy.n_actions or 0)
        require(size <= LARGEST_MODEL, f"{self.name}: states² · actions = {size} is more than {LARGEST_MODEL}")

    def settings(self, policy: Policy, value: float, gamma: float) -> np.ndarray:
        return np.array([self.first, self.mix, gamma])

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        states, cells = policy.n_states or 0, policy.parameters
        memory = np.zeros(Memory.count + cells * (6 + states) + 2 * states)
        named = Memory(memory)
        named.next_fit, named.last = self.first, -1.0
        return np.zeros(1, dtype=policy.dtype), memory


@helper
def columns(policy: PolicyView, sampler: SamplerView) -> tuple[Any, ...]:
    """The model's columns: visits, Σ r, Σ r², b and two tables to work in, all by cell; then the successors, by cell and
    state; then two lists to work in, by state."""
    cells, states = policy.sizes.parameters, policy.sizes.inputs
    visits = beyond(Memory(sampler.memory))
    successors = shift(visits, 6 * cells)
    values = shift(successors, cells * states)
    return (
        visits, shift(visits, cells), shift(visits, 2 * cells), shift(visits, 3 * cells), shift(visits, 4 * cells),
        shift(visits, 5 * cells), successors, values, shift(values, states),
    )  # fmt: skip


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    forward(policy, sampler.vectors, 0.0, obs)
    if Memory(sampler.memory).episodes >= Settings(sampler.settings).first:
        n = policy.sizes.outputs
        b, log_b = shift(columns(policy, sampler)[3], int(obs[0]) * n), out_b(policy)
        for a in range(n):
            log_b[a] = math.log(b[a]) if b[a] > 0.0 else -math.inf
    draw(policy, u, action)


@piece(UPDATE)
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    visits, rewards, squares, _, _, _, successors, _, _ = columns(policy, sampler)
    s = int(obs[0])
    memory = Memory(sampler.memory)
    cell, last = s * policy.sizes.outputs + int(action[0]), int(memory.last)
    if last >= 0:
        successors[last * policy.sizes.inputs + s] += 1.0
    visits[cell] += 1.0
    rewards[cell] += reward
    squares[cell] += reward * reward
    memory.last = cell


@helper
def fit_is_due(sampler: SamplerView) -> bool:
    """Count a finished trajectory. Returns True when it is time for a new design."""
    memory = Memory(sampler.memory)
    memory.last = -1.0
    memory.episodes += 1.0
    if memory.episodes < memory.next_fit:
        return False
    memory.next_fit = math.ceil(1.25 * memory.episodes)
    return True


@helper
def reward_moments(cell: int, visits: Floats, rewards: Floats, squares: Floats) -> tuple[float, float]:
    """Mean and (biased) variance of a cell's rewards. A variance so small that it may be rounding counts as 0."""
    mean = rewards[cell] / visits[cell]
    variance = squares[cell] / visits[cell] - mean * mean
    return mean, variance if variance > 1e-9 * mean * mean else 0.0


@helper
def expected_next(cell: int, states: int, visits: Floats, successors: Floats, values: Floats) -> float:
    """Σ_{s'} p̂(s'|s, a) x(s')."""
    total, row = 0.0, shift(successors, cell * states)
    for s in range(states):
        if row[s] > 0.0:
            total += row[s] * values[s]
    return total / visits[cell]


@helper
def set_behavior(policy: PolicyView, sampler: SamplerView, strengths: Floats) -> None:
    """b(a|s) = (1 − mix) π √x / Σ π √x + mix π, where x(s, a) are the strengths.

    After few visits x is hardly known, so PRIOR visits of the state's average strength are added to the visits there were.
    A state where nothing is known, or where nothing varies, keeps π_e.
    """
    n, mix = policy.sizes.outputs, Settings(sampler.settings).mix
    visits, b = beyond(Memory(sampler.memory)), columns(policy, sampler)[3]
    for s in range(policy.sizes.inputs):
        row = s * n
        average, known = 0.0, 0.0
        for i in range(row, row + n):
            if visits[i] > 0.0:
                average += policy.aux[i] * strengths[i]
                known += policy.aux[i]
        average = average / known if known > 0.0 else 0.0
        total = 0.0
        for i in range(row, row + n):
            seen = visits[i] * strengths[i] if visits[i] > 0.0 else 0.0
            b[i] = policy.aux[i] * math.sqrt((seen + PRIOR * average) / (visits[i] + PRIOR))
            total += b[i]
        for i in range(row, row + n):
            good = total > 0.0 and math.isfinite(total)
            b[i] = (1.0 - mix) * b[i] / total + mix * policy.aux[i] if good else policy.aux[i]
