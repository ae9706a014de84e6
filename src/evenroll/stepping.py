"""Several trajectories side by side, one sampler: each step of all of them is one compiled call.

`choose` and `update` follow each other at once, lane by lane: what a sampler learns from a step is its state and action,
not its reward, so no lane waits for the environment and every action sees all those chosen before it, also those of the
other lanes in the same step. With one lane the actions are those of `Driver.act` and `Driver.observe`, bit for bit.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numba import float64, int64, uint64, void

from evenroll.collect import LARGEST, LOG_RATIO, LOG_RATIO_SQUARED, STEPS, WATCHED, Divergence, Driver
from evenroll.errors import SpecError
from evenroll.kernel import (
    CHOOSE,
    END_EPISODE,
    LOG_BEHAVIOR,
    UPDATE,
    compiled,
    function_at,
    log_prob,
    pointer,
    policy_of,
    sampler_of,
    shift,
    view_types,
)
from evenroll.numerics import uniform
from evenroll.policies import Policy
from evenroll.rollouts import Rollouts
from evenroll.samplers import Sampler

SOUND, BAD_OBSERVATION, IMPOSSIBLE = -1, 0, 1

_choose, _log_behavior = function_at(CHOOSE), function_at(LOG_BEHAVIOR)
_update, _end_episode = function_at(UPDATE), function_at(END_EPISODE)


def _advance_kernel(
    policy_arrays: Any,
    sampler_code: Any,
    sampler_arrays: Any,
    clock: Any,
    tally: Any,
    rng: Any,
    u: Any,
    slots: Any,
    trajectories: Any,
    active: Any,
    obs: Any,
    actions: Any,
    log_e: Any,
    log_b: Any,
) -> int:
    """Choose an action for every lane, and learn from those of the active ones. SOUND, or 2·lane + what is wrong."""
    policy, sampler = policy_of(policy_arrays), sampler_of(sampler_arrays)
    choose, log_behavior = _choose(sampler_code[0], policy), _log_behavior(sampler_code[1], policy)
    update = _update(sampler_code[2], policy)
    lanes, n_obs, n_action, n_slots = len(active), obs.shape[1], actions.shape[1], len(slots)
    for e in range(lanes):
        if active[e] == 1:
            for i in range(n_obs):
                if not math.isfinite(obs[e, i]):
                    return 2 * e + BAD_OBSERVATION
    for e in range(lanes):
        for i in range(n_slots):
            sampler.memory[slots[i]] = trajectories[e, i]
        for i in range(len(u)):
            u[i] = uniform(pointer(rng))
        here, a = shift(pointer(obs), e * n_obs), shift(pointer(actions), e * n_action)
        choose(policy, sampler, here, pointer(u), a)
        if active[e] == 1:
            log_b[e] = log_behavior(policy, sampler, a)
            log_e[e] = log_prob(policy, policy.out, a)
            if not math.isfinite(log_e[e]):
                return 2 * e + IMPOSSIBLE
            ratio = log_b[e] - log_e[e]
            if math.isfinite(ratio):
                tally[WATCHED] += 1.0
                tally[LOG_RATIO] += ratio
                tally[LOG_RATIO_SQUARED] += ratio * ratio
                tally[LARGEST] = max(tally[LARGEST], abs(ratio))
            update(policy, sampler, here, a, 0.0)
            clock[STEPS] += 1
        for i in range(n_slots):
            trajectories[e, i] = sampler.memory[slots[i]]
    return SOUND


def _end_kernel(
    policy_arrays: Any,
    sampler_code: Any,
    sampler_arrays: Any,
    slots: Any,
    trajectories: Any,
    e: Any,
) -> None:
    policy, sampler = policy_of(policy_arrays), sampler_of(sampler_arrays)
    for i in range(len(slots)):
        sampler.memory[slots[i]] = trajectories[e, i]
    _end_episode(sampler_code[3], policy)(policy, sampler, 0.0, 0.0)
    for i in range(len(slots)):
        trajectories[e, i] = sampler.memory[slots[i]]


@functools.cache
def _advance(number: Any) -> Any:
    floats, ints, table = float64[::1], int64[::1], float64[:, ::1]
    loop = (ints, floats, uint64[::1], floats, ints, table, ints, table, table, floats, floats)
    return compiled(_advance_kernel, int64(*view_types(number), *loop))


@functools.cache
def _end(number: Any) -> Any:
    return compiled(_end_kernel, void(*view_types(number), int64[::1], float64[:, ::1], int64))


class Stepper:
    """The sampler's state and that of each lane's trajectory.

    actions [lanes, dim], log_e, log_b [lanes]: of the last `advance`, overwritten by the next.
    """

    def __init__(
        self,
        policy: Policy,
        sampler: Sampler,
        seed: tuple[int, ...],
        *,
        gamma: float,
        lanes: int = 1,
        initial: Rollouts | None = None,
    ) -> None:
        if sampler.needs_rewards:
            raise SpecError(f"{sampler.name} learns from rewards as a whole trial goes on: only for the built-in domains")
        driver = Driver(policy, sampler, seed, gamma=gamma, horizon=1, initial=initial, record_weights=True)
        self.driver = driver
        self.slots = np.array(sampler.trajectory, dtype=np.int64)
        self.trajectories = np.tile(driver.memory[self.slots], (lanes, 1))
        self.actions = np.zeros((lanes, policy.action_dim))
        self.log_e, self.log_b = np.zeros(lanes), np.zeros(lanes)
        self._advance, self._end = _advance(driver.number), _end(driver.number)
        self._ends = (*driver.view, self.slots, self.trajectories)
        self._start = (*driver.view, driver.clock, driver.tally, driver.action_rng, driver.u, self.slots, self.trajectories)
        self._results = (self.actions, self.log_e, self.log_b)

    def advance(self, encoded: np.ndarray, active: np.ndarray) -> int:
        """Act on encoded observations [lanes, obs_dim], float64; lanes not active act but are not learnt from."""
        return int(self._advance(*self._start, active, encoded, *self._results))

    def end(self, lane: int) -> None:
        """A lane's trajectory is over."""
        self._end(*self._ends, lane)
        self.driver.clock[1] += 1

    @property
    def divergence(self) -> Divergence:
        return self.driver.divergence

    def state(self) -> dict[str, np.ndarray]:
        """Everything that the next step depends on, as arrays to be saved or overwritten."""
        d = self.driver
        return {
            "vectors": d.vectors,
            "memory": d.memory,
            "clock": d.clock,
            "tally": d.tally,
            "rng": d.action_rng,
            "trajectories": self.trajectories,
            "actions": self.actions,
            "log_e": self.log_e,
            "log_b": self.log_b,
        }
