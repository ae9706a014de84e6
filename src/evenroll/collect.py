"""The loop: environment, policy and sampler joined, a whole trial at a time or one step at a time.

`Driver` owns a trial's state: the policy's scratch, the sampler's memory, the random streams. Its `run` advances a
built-in environment inside one compiled call; its `act` and `observe` serve an environment that lives elsewhere.
Both call the same compiled pieces with the same random numbers, so both choose the same actions.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, int64, njit, uint64

from evenroll.errors import EnvironmentFault, PolicyError, SpecError
from evenroll.kernel import (
    CHOOSE,
    END_EPISODE,
    LOG_BEHAVIOR,
    RESET,
    SAMPLER_PIECES,
    STEP,
    UPDATE,
    Piece,
    PolicyView,
    SamplerView,
    compiled,
    forward,
    function_at,
    log_prob,
    number_type,
    pointer,
    shift,
)
from evenroll.numerics import stream, uniform
from evenroll.policies import Policy
from evenroll.rollouts import Rollouts
from evenroll.samplers import Sampler
from evenroll.samplers.base import DEFAULT_PIECES


@dataclass(frozen=True, eq=False)
class Environment:
    """A compiled environment: its pieces, parameters and sizes. The observation is the head of the state."""

    reset: Piece
    step: Piece
    params: np.ndarray
    state_dim: int
    obs_dim: int
    n_actions: int | None  # None: real actions
    action_dim: int
    reset_uniforms: int
    step_uniforms: int
    n_states: int | None = None  # where the observation is a state's number

    def check(self, policy: Policy) -> None:
        if (policy.obs_dim, policy.n_actions, policy.action_dim) != (self.obs_dim, self.n_actions, self.action_dim):
            theirs, ours = _shape(policy), _shape(self)
            raise PolicyError(f"the policy has {theirs}, the domain has {ours}")
        if self.n_states != policy.n_states:
            mine = "numbers its states" if self.n_states else "has vector observations"
            raise PolicyError(f"the domain {mine}" + (f" (0 … {self.n_states - 1})" if self.n_states else "") + "; the policy does not fit")


def _shape(x: Any) -> str:
    actions = f"{x.n_actions} actions" if x.n_actions is not None else f"{x.action_dim}-d real actions"
    return f"{x.obs_dim}-d observations and {actions}"


# ---- compiled drivers ----------------------------------------------------------------------------------------
# clock (int64): what the loop counts. Names are indices.
STEPS, EPISODES, T, HORIZON, MAX_STEPS, MAX_EPISODES = 0, 1, 2, 3, 4, 5
ACTION_U, RESET_U, STEP_U, OBS, ACTION = 6, 7, 8, 9, 10
WEIGHTS, RECORD, FIRST_EPISODE, FIRST_STEP, EPISODE_ROOM, STEP_ROOM, STARTED = 11, 12, 13, 14, 15, 16, 17
# tally (float64): the trajectory so far.
RETURN, DISCOUNT, LOG_WEIGHT, GAMMA, LOG_E, LOG_B = 0, 1, 2, 3, 4, 5

RUNNING_OUT_OF_ROOM, FINISHED, BAD_REWARD = 0, 1, 2

_choose, _log_behavior = function_at(CHOOSE), function_at(LOG_BEHAVIOR)
_update, _end_episode = function_at(UPDATE), function_at(END_EPISODE)
_reset, _step = function_at(RESET), function_at(STEP)


@njit
def _act(policy: Any, sampler: Any, code: Any, clock: Any, tally: Any, rng: Any, obs: Any, u: Any, action: Any) -> None:
    """Draw uniforms, choose an action and, where weights are kept, note both log-probabilities."""
    for i in range(clock[ACTION_U]):
        u[i] = uniform(rng)
    _choose(code[0], policy)(policy, sampler, obs, u, action)
    if clock[WEIGHTS]:
        tally[LOG_B] = _log_behavior(code[1], policy)(policy, sampler, action)
        tally[LOG_E] = log_prob(policy, policy.out, action)
        tally[LOG_WEIGHT] += tally[LOG_E] - tally[LOG_B]


@njit
def _learn(
    policy: Any, sampler: Any, code: Any, clock: Any, tally: Any, obs: Any, action: Any, reward: float, done: bool
) -> None:
    """Account for one step and tell the sampler about it."""
    _update(code[2], policy)(policy, sampler, obs, action, reward)
    tally[RETURN] += tally[DISCOUNT] * reward
    tally[DISCOUNT] *= tally[GAMMA]
    clock[STEPS] += 1
    clock[T] += 1
    if done:
        _end_episode(code[3], policy)(policy, sampler, tally[RETURN], tally[LOG_WEIGHT])
        clock[EPISODES] += 1


@njit
def _start(clock: Any, tally: Any) -> None:
    clock[T] = 0
    tally[RETURN] = 0.0
    tally[DISCOUNT] = 1.0
    tally[LOG_WEIGHT] = 0.0


def _run_kernel(
    code: Any, dims: Any, index: Any, theta: Any, aux: Any, work: Any, out: Any,
    sampler_code: Any, hyper: Any, vectors: Any, memory: Any,
    env_code: Any, params: Any, state: Any, env_u: Any, env_rng: Any,
    clock: Any, tally: Any, action_rng: Any, u: Any, action: Any, reward: Any,
    returns: Any, ends: Any, terminated: Any, log_weights: Any,
    observations: Any, actions: Any, rewards: Any, log_e: Any, log_b: Any,
) -> int:  # fmt: skip
    """Advance until a limit, the end of the room for records, or a fault."""
    policy = PolicyView(
        pointer(code), pointer(dims), pointer(index), pointer(theta), pointer(aux), pointer(work), pointer(out)
    )
    sampler = SamplerView(pointer(hyper), pointer(vectors), pointer(memory))
    count, note, s_code, rng = pointer(clock), pointer(tally), pointer(sampler_code), pointer(action_rng)
    obs, a, r = pointer(state), pointer(action), pointer(reward)
    keep = clock[RECORD] == 1
    n_obs, n_action = clock[OBS], clock[ACTION]
    before = np.empty(max(n_obs, 1))  # the observation acted on; the environment overwrites its own
    seen = pointer(before)
    reset, step = _reset(env_code[0], 0), _step(env_code[1], 0)
    while clock[STEPS] < clock[MAX_STEPS] and clock[EPISODES] < clock[MAX_EPISODES]:
        if clock[EPISODES] - clock[FIRST_EPISODE] >= clock[EPISODE_ROOM]:
            return RUNNING_OUT_OF_ROOM
        row = clock[STEPS] - clock[FIRST_STEP]
        if keep and row >= clock[STEP_ROOM]:
            return RUNNING_OUT_OF_ROOM
        if clock[STARTED] == 0:
            for i in range(clock[RESET_U]):
                env_u[i] = uniform(pointer(env_rng))
            reset(pointer(params), obs, pointer(env_u))
            _start(count, note)
            clock[STARTED] = 1
        for i in range(n_obs):
            before[i] = state[i]
        _act(policy, sampler, s_code, count, note, rng, seen, pointer(u), a)
        for i in range(clock[STEP_U]):
            env_u[i] = uniform(pointer(env_rng))
        over = step(pointer(params), obs, a, pointer(env_u), r)
        if not math.isfinite(reward[0]):
            return BAD_REWARD
        if keep:
            for i in range(n_obs):
                observations[row * n_obs + i] = before[i]
            for i in range(n_action):
                actions[row * n_action + i] = action[i]
            rewards[row] = reward[0]
            log_e[row] = tally[LOG_E]
            log_b[row] = tally[LOG_B]
        done = (over == 1) | (clock[T] + 1 >= clock[HORIZON])
        _learn(policy, sampler, s_code, count, note, seen, a, reward[0], done)
        if done:
            e = clock[EPISODES] - 1 - clock[FIRST_EPISODE]
            returns[e] = tally[RETURN]
            ends[e] = clock[STEPS]
            terminated[e] = over
            log_weights[e] = tally[LOG_WEIGHT]
            clock[STARTED] = 0
    return FINISHED


def _act_kernel(
    code: Any, dims: Any, index: Any, theta: Any, aux: Any, work: Any, out: Any,
    sampler_code: Any, hyper: Any, vectors: Any, memory: Any,
    clock: Any, tally: Any, action_rng: Any, u: Any, action: Any, obs: Any,
) -> None:  # fmt: skip
    policy = PolicyView(
        pointer(code), pointer(dims), pointer(index), pointer(theta), pointer(aux), pointer(work), pointer(out)
    )
    sampler = SamplerView(pointer(hyper), pointer(vectors), pointer(memory))
    if clock[STARTED] == 0:
        _start(pointer(clock), pointer(tally))
        clock[STARTED] = 1
    _act(
        policy, sampler, pointer(sampler_code), pointer(clock), pointer(tally), pointer(action_rng),
        pointer(obs), pointer(u), pointer(action),
    )  # fmt: skip


def _observe_kernel(
    code: Any, dims: Any, index: Any, theta: Any, aux: Any, work: Any, out: Any,
    sampler_code: Any, hyper: Any, vectors: Any, memory: Any,
    clock: Any, tally: Any, action: Any, obs: Any, reward: Any, done: Any,
) -> None:  # fmt: skip
    policy = PolicyView(
        pointer(code), pointer(dims), pointer(index), pointer(theta), pointer(aux), pointer(work), pointer(out)
    )
    sampler = SamplerView(pointer(hyper), pointer(vectors), pointer(memory))
    _learn(
        policy, sampler, pointer(sampler_code), pointer(clock), pointer(tally), pointer(obs), pointer(action), reward, done
    )
    if done:
        clock[STARTED] = 0


def _absorb_kernel(
    code: Any, dims: Any, index: Any, theta: Any, aux: Any, work: Any, out: Any,
    sampler_code: Any, hyper: Any, vectors: Any, memory: Any,
    observations: Any, actions: Any, rewards: Any, ends: Any, returns: Any, log_weights: Any, n_obs: Any, n_action: Any,
) -> None:  # fmt: skip
    """Feed initial data to the sampler, step by step, as if it had just been collected."""
    policy = PolicyView(
        pointer(code), pointer(dims), pointer(index), pointer(theta), pointer(aux), pointer(work), pointer(out)
    )
    sampler = SamplerView(pointer(hyper), pointer(vectors), pointer(memory))
    row = 0
    for episode in range(len(ends)):
        while row < ends[episode]:
            obs, action = shift(pointer(observations), row * n_obs), shift(pointer(actions), row * n_action)
            forward(policy, sampler.vectors, 0.0, obs)
            _update(sampler_code[2], policy)(policy, sampler, obs, action, rewards[row])
            row += 1
        _end_episode(sampler_code[3], policy)(policy, sampler, returns[episode], log_weights[episode])


_F, _I, _U = float64[::1], int64[::1], uint64[::1]


def _view_types(number: Any) -> tuple[Any, ...]:
    reals = number[::1]
    return (_I, _I, _I, reals, reals, reals, _F, _I, _F, reals, _F)


@functools.cache
def _run(number: Any) -> Any:
    env = (_I, _F, _F, _F, _U)
    loop = (_I, _F, _U, _F, _F, _F)
    record = (_F, _I, _I, _F, _F, _F, _F, _F, _F)
    return compiled(_run_kernel, int64(*_view_types(number), *env, *loop, *record))


@functools.cache
def _act_one(number: Any) -> Any:
    from numba import void

    return compiled(_act_kernel, void(*_view_types(number), _I, _F, _U, _F, _F, _F))


@functools.cache
def _observe_one(number: Any) -> Any:
    from numba import boolean, void

    return compiled(_observe_kernel, void(*_view_types(number), _I, _F, _F, _F, float64, boolean))


@functools.cache
def _absorb(number: Any) -> Any:
    from numba import void

    return compiled(_absorb_kernel, void(*_view_types(number), _F, _F, _F, _I, _F, _F, int64, int64))


# ---- in Python -----------------------------------------------------------------------------------------------


class Driver:
    """One trial: a policy, a sampler, random numbers, and what has been learnt so far.

    value           scale of returns for samplers that need it (BPG): v(π_e) or a guess
    seed            place in the seed tree; actions and environment have a stream each, so that methods can be
                    compared on common environment noise
    record_weights  keep log π_e and log π_b           record_steps  keep every step (implies weights)
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
        if not 0.0 <= gamma <= 1.0:
            raise SpecError(f"gamma must lie in [0, 1], not {gamma}")
        sampler.check(policy)
        self.policy, self.sampler, self.seed = policy, sampler, seed
        self.initial = initial
        self.number = number_type(policy.dtype)
        table = {**DEFAULT_PIECES, **sampler.pieces()}
        sampler_code = np.array([table[name].address(self.number) for name in SAMPLER_PIECES], dtype=np.int64)
        vectors, memory = sampler.state(policy)
        self.view = (*policy.arrays(), sampler_code, sampler.hyper(policy, value), vectors, memory)
        self.action_rng, self.env_rng = stream(*seed, 0), stream(*seed, 1)
        self.record_steps = record_steps
        weights = record_weights or record_steps or sampler.needs_weights
        uniforms = policy.action_dim + sampler.extra_uniforms
        self.clock = np.zeros(20, dtype=np.int64)
        self.clock[[HORIZON, ACTION_U, WEIGHTS, RECORD]] = horizon, uniforms, weights, record_steps
        self.clock[[OBS, ACTION]] = policy.obs_dim, policy.action_dim
        self.tally = np.zeros(8)
        self.tally[GAMMA] = gamma
        self.u, self.action, self.reward = np.zeros(uniforms), np.zeros(policy.action_dim), np.zeros(1)
        self._env_state: np.ndarray | None = None
        if initial is not None:
            self._absorb(initial)

    def _absorb(self, initial: Rollouts) -> None:
        if initial.unfinished:
            raise SpecError("initial data must consist of finished trajectories")
        weights = initial.log_weights if initial.log_weights is not None else np.zeros(initial.episodes)
        _absorb(self.number)(
            *self.view,
            np.ascontiguousarray(initial.column("observations"), dtype=np.float64).ravel(),
            np.ascontiguousarray(initial.column("actions"), dtype=np.float64).ravel(),
            np.ascontiguousarray(initial.column("rewards")),
            np.ascontiguousarray(initial.ends),
            np.ascontiguousarray(initial.returns),
            np.ascontiguousarray(weights),
            self.policy.obs_dim,
            self.policy.action_dim,
        )

    # ---- one step at a time -----------------------------------------------------------------------------

    def act(self, obs: np.ndarray) -> np.ndarray:
        """Choose an action for an observation [obs_dim], float64. The array returned is re-used."""
        self._obs = obs
        _act_one(self.number)(*self.view, self.clock, self.tally, self.action_rng, self.u, self.action, obs)
        return self.action

    def observe(self, reward: float, done: bool) -> None:
        """Tell the sampler what came of the last action; `done` if the trajectory ended, for whatever reason."""
        _observe_one(self.number)(*self.view, self.clock, self.tally, self.action, self._obs, reward, done)

    # ---- a built-in environment, many steps in one call ----------------------------------------------------

    def run(self, env: Environment, *, steps: int | None = None, episodes: int | None = None) -> Rollouts:
        """Collect until `steps` steps or `episodes` finished trajectories in all; initial data is put in front."""
        env.check(self.policy)
        if (steps is None) == (episodes is None):
            raise SpecError("give either steps or episodes")
        limit = np.iinfo(np.int64).max
        clock = self.clock
        clock[[RESET_U, STEP_U]] = env.reset_uniforms, env.step_uniforms
        clock[MAX_STEPS] = limit if steps is None else steps
        clock[MAX_EPISODES] = limit if episodes is None else episodes
        if self._env_state is None:
            self._env_state = np.zeros(env.state_dim)
        state = self._env_state
        env_u = np.zeros(max(1, env.reset_uniforms, env.step_uniforms))
        env_code = np.array([env.reset.address(self.number), env.step.address(self.number)], dtype=np.int64)
        kernel = _run(self.number)
        room = min(episodes or limit, 4096)
        step_room = min(steps or limit, 65536) if self.record_steps else 0
        chunks: list[tuple[np.ndarray, ...]] = []
        while True:
            clock[[FIRST_EPISODE, FIRST_STEP]] = clock[EPISODES], clock[STEPS]
            clock[[EPISODE_ROOM, STEP_ROOM]] = room, step_room
            per_episode = (np.empty(room), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room))
            widths = (self.policy.obs_dim, self.policy.action_dim, 1, 1, 1)
            per_step = tuple(np.empty(step_room * w) for w in widths)
            status = kernel(
                *self.view, env_code, env.params, state, env_u, self.env_rng, clock, self.tally, self.action_rng,
                self.u, self.action, self.reward, *per_episode, *per_step,
            )  # fmt: skip
            n, m = int(clock[EPISODES] - clock[FIRST_EPISODE]), int(clock[STEPS] - clock[FIRST_STEP])
            m = m if self.record_steps else 0
            chunks.append((*(x[:n].copy() for x in per_episode), *(x[: m * w].copy() for x, w in zip(per_step, widths, strict=True))))
            if status == BAD_REWARD:
                raise EnvironmentFault(
                    f"the environment returned reward {self.reward[0]} in trajectory {clock[EPISODES]}, "
                    f"step {clock[T]} (seed {self.seed})"
                )
            if status == FINISHED:
                break
            room, step_room = min(2 * room, 1 << 20), min(2 * step_room, 1 << 20)
        joined = [np.concatenate(column) for column in zip(*chunks, strict=True)]
        returns, ends, terminated, log_weights = joined[:4]
        kept = self.record_steps
        weights = bool(clock[WEIGHTS])
        rollouts = Rollouts(
            float(self.tally[GAMMA]), int(clock[STEPS]), returns, ends, terminated.astype(bool),
            log_weights if weights else None,
            joined[4].reshape(-1, self.policy.obs_dim) if kept else None,
            joined[5].reshape(-1, self.policy.action_dim) if kept else None,
            joined[6] if kept else None, joined[7] if kept else None, joined[8] if kept else None,
        )  # fmt: skip
        return rollouts if self.initial is None else rollouts.after(self.initial)
