"""Whole trials: a built-in environment, a policy and a sampler run in one compiled loop."""

from __future__ import annotations

import functools
import math
import time
from typing import Any

import numpy as np
from numba import float64, int64, uint64

from evenroll.collection.balance import Balance, Divergence
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.step import WATCH_EVERY, Clock, Tally, choose_and_watch, sampling_types
from evenroll.domains.environment import RESET, STEP, Environment, EnvironmentCode, EnvironmentSizes
from evenroll.engine.addresses import Addresses, pointers
from evenroll.engine.pace import Pace
from evenroll.engine.pieces import compiled, function_at
from evenroll.engine.random import stream, uniform
from evenroll.engine.scalars import smaller
from evenroll.errors import EnvironmentFault, SpecError
from evenroll.policies import Policy
from evenroll.policies.interface import policy_of
from evenroll.samplers import Sampler
from evenroll.samplers.interface import choosing, ending, sampler_of, updating, weighing
from evenroll.text.specs import whole_number

RUNNING_OUT_OF_ROOM, FINISHED, BAD_REWARD = 0, 1, 2  # why a compiled call has returned
MOST_ROOM, MOST_BYTES = 1 << 20, 64 << 20  # how many steps a compiled call may take, and the size of their records
UNLIMITED = np.iinfo(np.int64).max

_reset, _step = function_at(RESET), function_at(STEP)


def _run_kernel(
    policy_arrays: Any, sampler_arrays: Any, loop: Any, environment: Any, episode_records: Any, step_records: Any
) -> int:  # fmt: skip
    """Run until a limit is reached, the room for records is full, or something is wrong. Returns which of these it was.

    loop         clock, tally, stream of the actions' luck, its uniform numbers, and the action
    environment  code, params, state, uniform numbers, sizes, stream, reward, and room for a copy of the observation that is
                 acted on, because the environment overwrites it
    """
    policy, sampler = policy_of(policy_arrays), sampler_of(sampler_arrays)
    clock_array, tally_array, actions_from, uniforms_at, action = pointers(loop)
    env_code, settings, state, noise, env_sizes, starts_from, reward, before = pointers(environment)
    clock, tally, code = Clock(clock_array), Tally(tally_array), EnvironmentCode(env_code)
    reset, step = _reset(code.reset, 0), _step(code.step, 0)
    choose, log_behavior = choosing(policy, sampler), weighing(policy, sampler)
    update, end_episode = updating(policy, sampler), ending(policy, sampler)
    returns, ends, terminated, log_weights = pointers(episode_records)
    observations, actions, rewards, log_e, log_b = pointers(step_records)
    sizes = EnvironmentSizes(env_sizes)
    reset_uniforms, step_uniforms, n_action = sizes.reset_uniforms, sizes.step_uniforms, policy.sizes.action_dim
    keep, weigh, watch = clock.record == 1, clock.weights == 1, clock.watch == 1
    n_obs = sizes.obs_dim
    # What changes every step lives in local variables during a call, and in clock and tally between calls.
    steps, episodes, t, started = clock.steps, clock.episodes, clock.t, clock.started == 1
    first_step, first_episode, horizon = clock.first_step, clock.first_episode, clock.horizon
    max_steps = smaller(clock.max_steps, first_step + clock.step_room)
    max_episodes = smaller(clock.max_episodes, first_episode + clock.episode_room)
    total, discount, log_weight, gamma = tally.episode_return, tally.discount, tally.log_weight, tally.gamma
    status = FINISHED
    while steps < max_steps and episodes < max_episodes:
        if not started:
            for i in range(reset_uniforms):
                noise[i] = uniform(starts_from)
            reset(settings, state, noise)
            t, total, discount, log_weight, started = 0, 0.0, 1.0, 0.0, True
        for i in range(n_obs):
            before[i] = state[i]
        looking = weigh or (watch and steps % WATCH_EVERY == 0)
        of_e, of_b = choose_and_watch(
            policy, sampler, choose, log_behavior, tally, actions_from, n_action, uniforms_at, state, action, looking
        )
        if weigh:
            log_weight -= of_b - of_e
        for i in range(step_uniforms):
            noise[i] = uniform(starts_from)
        over = step(settings, state, action, noise, reward)
        gain = reward[0]
        if not math.isfinite(gain):
            status = BAD_REWARD
            break
        if keep:
            row = steps - first_step
            for i in range(n_obs):
                observations[row * n_obs + i] = before[i]
            for i in range(n_action):
                actions[row * n_action + i] = action[i]
            rewards[row], log_e[row], log_b[row] = gain, of_e, of_b
        update(policy, sampler, before, action, gain)
        total += discount * gain
        discount *= gamma
        steps += 1
        t += 1
        if over == 1 or t >= horizon:
            end_episode(policy, sampler, total, log_weight)
            e = episodes - first_episode
            returns[e], ends[e], terminated[e], log_weights[e] = total, steps, over, log_weight
            episodes += 1
            started = False
    if status == FINISHED and steps < clock.max_steps and episodes < clock.max_episodes:
        status = RUNNING_OUT_OF_ROOM
    clock.steps, clock.episodes, clock.t, clock.started = steps, episodes, t, 1 if started else 0
    tally.episode_return, tally.discount, tally.log_weight = total, discount, log_weight
    return status


@functools.cache
def _run(number: Any) -> Any:
    loop = Addresses((int64, float64, uint64, float64, float64))
    environment = Addresses((int64, float64, float64, float64, int64, uint64, float64, float64))
    records = Addresses((float64, int64, int64, float64)), Addresses((float64,) * 5)
    return compiled(_run_kernel, int64(*sampling_types(number), loop, environment, *records))


class Driver:
    """One trial on a built-in environment: `run` it, and run it further.

    policy, sampler, seed, gamma, value, initial  see `Balance`
    horizon         the number of steps after which a trajectory is cut
    record_weights  whether to keep Σ log π_e − log π_b of every trajectory
    record_steps    whether to keep every step (and the weights)
    """

    def __init__(
        self,
        policy: Policy,
        sampler: Sampler,
        seed: tuple[int, ...],
        *,
        gamma: float,
        horizon: int,
        value: float = 1.0,
        initial: Rollouts | None = None,
        record_weights: bool = False,
        record_steps: bool = False,
    ) -> None:
        horizon = min(whole_number("horizon", horizon, 1), UNLIMITED)
        self.balance = Balance(policy, sampler, seed, gamma=gamma, value=value, initial=initial)
        self.policy, self.sampler, self.seed, self.initial = policy, sampler, seed, self.balance.initial
        self.record_steps = record_steps
        clock = self.balance.clock
        clock.horizon, clock.record, clock.watch = horizon, record_steps, not sampler.on_policy
        clock.weights = record_weights or record_steps or sampler.needs_weights
        self._env_stream = stream(*seed, 1)
        self._env_state: np.ndarray | None = None
        self._action, self._reward = np.zeros(policy.action_dim), np.zeros(1)
        self._chunks: list[tuple[np.ndarray, ...]] = []  # records that no call of `run` has returned yet
        self._filling: tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...], tuple[int, ...]] | None = None  # and their room

    @property
    def divergence(self) -> Divergence:
        """How far the behaviour has been from π_e so far, without the initial data."""
        return self.balance.divergence

    @property
    def waiting(self) -> bool:
        """Whether an interrupt or a fault left records that no call of `run` has returned yet."""
        return bool(self._chunks) or self._filling is not None

    def run(self, env: Environment, *, steps: int | None = None, episodes: int | None = None) -> Rollouts:
        """Collect until there are `steps` steps or `episodes` finished trajectories in all. Initial data is put in front.

        What was collected before an interrupt or a fault is not lost: the next call returns it, `run(env, steps=0)` alone.
        """
        env.check(self.policy)
        if (steps is None) == (episodes is None):
            raise SpecError("give either steps or episodes")
        clock = self.balance.clock
        clock.max_steps = UNLIMITED if steps is None else min(whole_number("steps", steps, 0), UNLIMITED)
        clock.max_episodes = UNLIMITED if episodes is None else min(whole_number("episodes", episodes, 0), UNLIMITED)
        if self._env_state is None:
            self._env_state = np.zeros(env.state_dim)
        if len(self._env_state) != env.state_dim:
            raise SpecError(f"the trial began with a state of {len(self._env_state)} numbers, this one has {env.state_dim}")
        env_u = np.zeros(max(1, env.reset_uniforms, env.step_uniforms))
        environment = (
            env.code(self.balance.number), env.params, self._env_state, env_u, env.sizes(), self._env_stream, self._reward,
            np.empty(max(env.obs_dim, 1)),
        )  # fmt: skip
        pace, most = Pace(self.balance.size), MOST_ROOM
        if self.record_steps:
            most = min(most, max(MOST_BYTES // (8 * (self.policy.obs_dim + self.policy.action_dim + 3)), 1))
        status = RUNNING_OUT_OF_ROOM
        while status != FINISHED:
            room = min(pace.steps, most, steps or UNLIMITED)
            started = time.perf_counter()
            status = self._advance(environment, min(room, episodes or UNLIMITED), room)
            pace.took(time.perf_counter() - started)
        rollouts = self._rollouts([np.concatenate(column) for column in zip(*self._chunks, strict=True)])
        rollouts = rollouts if self.initial is None else rollouts.after(self.initial)
        self._chunks = []
        return rollouts

    def _advance(self, environment: tuple[Any, ...], room: int, step_room: int) -> int:
        """Make one compiled call with room for these numbers of records, and keep those it filled. Returns its status."""
        self._settle()
        balance, clock = self.balance, self.balance.clock
        clock.first_episode, clock.first_step = clock.episodes, clock.steps
        clock.episode_room, clock.step_room = room, step_room
        per_episode = (np.empty(room), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room))
        widths = (self.policy.obs_dim, self.policy.action_dim, 1, 1, 1)
        per_step = tuple(np.empty(step_room * w if self.record_steps else 0) for w in widths)
        call = _run(balance.number)
        self._filling = per_episode, per_step, widths  # a signal may be raised from here on: `_settle` keeps what is filled
        status = call(
            *balance.arrays,
            (balance.clock_array, balance.tally_array, balance.stream, balance.uniforms, self._action),
            environment,
            per_episode,
            per_step,
        )
        self._settle()
        if status == BAD_REWARD:
            raise EnvironmentFault(
                f"the environment returned reward {self._reward[0]} in trajectory {clock.episodes}, "
                f"step {clock.t} (seed {self.seed})",
                episode=int(clock.episodes),
                step=int(clock.t),
            )
        return int(status)

    def _settle(self) -> None:
        """Keep what the last compiled call has filled. It may be called again if a signal interrupts it.

        The two assignments at its end are made as one: Python raises what a signal asks for at calls and jumps only.
        """
        if self._filling is None:
            return
        per_episode, per_step, widths = self._filling
        clock = self.balance.clock
        n, m = int(clock.episodes - clock.first_episode), int(clock.steps - clock.first_step)
        m = m if self.record_steps else 0
        steps = (x[: m * w].copy() for x, w in zip(per_step, widths, strict=True))
        chunk = (*(x[:n].copy() for x in per_episode), *steps)
        self._chunks, self._filling = [*self._chunks, chunk], None

    def _rollouts(self, columns: list[np.ndarray]) -> Rollouts:
        clock, policy = self.balance.clock, self.policy
        returns, ends, terminated, log_weights, observations, actions, rewards, log_e, log_b = columns
        kept = self.record_steps
        return Rollouts(
            float(self.balance.tally.gamma),
            int(clock.steps),
            returns,
            ends,
            terminated.astype(bool),
            log_weights if clock.weights else None,
            observations.reshape(-1, policy.obs_dim) if kept else None,
            actions.reshape(-1, policy.action_dim) if kept else None,
            rewards if kept else None,
            log_e if kept else None,
            log_b if kept else None,
            horizon=int(clock.horizon),
        )
