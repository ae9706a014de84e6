"""One compiled step, the same for whole trials and for environments that live elsewhere: choose an action, and watch.

What changes from step to step has names here. `Clock` counts and `Tally` sums. Both are plain arrays that can be saved.
"""

from __future__ import annotations

import math
from typing import Any

from numba import int64

from evenroll.engine.helpers import helper
from evenroll.engine.pieces import Floats, Ints
from evenroll.engine.random import uniform
from evenroll.engine.scalars import larger
from evenroll.engine.views import Fields
from evenroll.policies.interface import PolicyView, log_prob, policy_arrays
from evenroll.samplers.interface import SamplerView, sampler_arrays

WATCH_EVERY = 64  # steps between looks at π_b, unless the weights of all steps are computed anyway


class Clock(Fields, number=int64):
    """What the loop counts, and its limits."""

    steps: int  # steps taken so far
    episodes: int  # trajectories finished so far
    t: int  # steps of the running trajectory
    horizon: int  # steps after which a trajectory is cut
    max_steps: int  # the loop stops at this many steps …
    max_episodes: int  # … or at this many trajectories
    weights: int  # 1 if the importance weight of every trajectory is wanted
    record: int  # 1 if every step is kept
    watch: int  # 1 if π_b is to be compared with π_e now and then
    first_episode: int  # the first trajectory of this call; records are counted from here
    first_step: int  # the first step of this call
    episode_room: int  # how many trajectories there is room for in this call
    step_room: int  # how many steps this call may take; there is room for their records
    started: int  # 1 while a trajectory is running


class Tally(Fields):
    """What the loop sums up: the running trajectory, and how far π_b has been from π_e."""

    episode_return: float
    discount: float
    log_weight: float  # Σ log π_e − log π_b
    gamma: float
    watched: float  # steps looked at
    log_ratio: float  # Σ log π_b/π_e of their actions
    largest: float  # the largest |log π_b/π_e|
    log_ratio_squared: float  # Σ (log π_b/π_e)²


def sampling_types(number: Any) -> tuple[Any, Any]:
    """The Numba types that every kernel which runs a sampler begins with: the arrays of the policy and of the sampler."""
    return policy_arrays(number), sampler_arrays(number)


@helper(forceinline=True)  # a call of its own would cost a table 5 % of its step
def choose_and_watch(
    policy: PolicyView, sampler: SamplerView, choose: Any, log_behavior: Any, tally: Tally, stream: Ints, uniforms: int,
    u: Floats, obs: Floats, action: Floats, watch: bool,
) -> tuple[float, float]:  # fmt: skip
    """Draw the action of a step with its share of the random stream. Returns its (log π_e, log π_b) where `watch` asks."""
    for i in range(uniforms):
        u[i] = uniform(stream)
    choose(policy, sampler, obs, u, action)
    if not watch:
        return 0.0, 0.0
    log_b = log_behavior(policy, sampler, action)
    log_e = log_prob(policy, policy.out, action)
    ratio = log_b - log_e
    if math.isfinite(ratio):  # a point mass (roa on real actions) has no finite ratio
        tally.watched += 1.0
        tally.log_ratio += ratio
        tally.log_ratio_squared += ratio * ratio
        tally.largest = larger(tally.largest, abs(ratio))
    return log_e, log_b
