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
from numba import float64, int64, uint64

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
    compiled,
    forward,
    function_at,
    log_prob,
    number_type,
    pointer,
    policy_of,
    sampler_of,
    shift,
    view_types,
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
            raise PolicyError(
                f"the domain {mine}" + (f" (0 … {self.n_states - 1})" if self.n_states else "") + "; the policy does not fit"
            )


def _shape(x: Any) -> str:
    actions = f"{x.n_actions} actions" if x.n_actions is not None else f"{x.action_dim}-d real actions"
    return f"{x.obs_dim}-d observations and {actions}"


# ---- compiled drivers ----------------------------------------------------------------------------------------
# clock (int64): what the loop counts. Names are indices.
STEPS, EPISODES, T, HORIZON, MAX_STEPS, MAX_EPISODES = 0, 1, 2, 3, 4, 5
ACTION_U, RESET_U, STEP_U, OBS, ACTION = 6, 7, 8, 9, 10
WEIGHTS, RECORD, FIRST_EPISODE, FIRST_STEP, EPISODE_ROOM, STEP_ROOM, STARTED = 11, 12, 13, 14, 15, 16, 17
WATCH = 18
# tally (float64): the trajectory so far.
RETURN, DISCOUNT, LOG_WEIGHT, GAMMA, LOG_E, LOG_B = 0, 1, 2, 3, 4, 5
# … and how far π_b is from π_e: steps looked at, Σ log π_b/π_e of their actions, the largest of its absolute values.
WATCHED, LOG_RATIO, LARGEST, LOG_RATIO_SQUARED = 6, 7, 8, 9
WATCH_EVERY = 64  # steps, where the weights of all steps are not computed anyway

RUNNING_OUT_OF_ROOM, FINISHED, BAD_REWARD = 0, 1, 2

_choose, _log_behavior = function_at(CHOOSE), function_at(LOG_BEHAVIOR)
_update, _end_episode = function_at(UPDATE), function_at(END_EPISODE)
_reset, _step = function_at(RESET), function_at(STEP)


def _run_kernel(
    policy_arrays: Any,
    sampler_code: Any,
    sampler_arrays: Any,
    env_code: Any,
    params: Any,
    state: Any,
    env_u: Any,
    env_rng: Any,
    clock: Any,
    tally: Any,
    action_rng: Any,
    u: Any,
    action: Any,
    reward: Any,
    returns: Any,
    ends: Any,
    terminated: Any,
    log_weights: Any,
    observations: Any,
    actions: Any,
    rewards: Any,
    log_e: Any,
    log_b: Any,
) -> int:
    """Advance until a limit, the end of the room for records, or a fault."""
    policy, sampler = policy_of(policy_arrays), sampler_of(sampler_arrays)
    choose, log_behavior = _choose(sampler_code[0], policy), _log_behavior(sampler_code[1], policy)
    update, end_episode = _update(sampler_code[2], policy), _end_episode(sampler_code[3], policy)
    reset, step = _reset(env_code[0], 0), _step(env_code[1], 0)
    here, a, r, uniforms = pointer(state), pointer(action), pointer(reward), pointer(u)
    noise, action_state, env_state = pointer(env_u), pointer(action_rng), pointer(env_rng)
    n_obs, n_action, n_u, n_step_u = clock[OBS], clock[ACTION], clock[ACTION_U], clock[STEP_U]
    keep, weigh, watch = clock[RECORD] == 1, clock[WEIGHTS] == 1, clock[WATCH] == 1
    before = np.empty(max(n_obs, 1))  # the observation acted on; the environment overwrites its own
    obs = pointer(before)
    # What changes every step lives in local variables, and in clock and tally between calls.
    steps, episodes, t, started = clock[STEPS], clock[EPISODES], clock[T], clock[STARTED] == 1
    first_step, first_episode = clock[FIRST_STEP], clock[FIRST_EPISODE]
    max_steps, max_episodes, horizon = clock[MAX_STEPS], clock[MAX_EPISODES], clock[HORIZON]
    if keep:
        max_steps = min(max_steps, first_step + clock[STEP_ROOM])
    max_episodes = min(max_episodes, first_episode + clock[EPISODE_ROOM])
    total, discount, log_weight, gamma = tally[RETURN], tally[DISCOUNT], tally[LOG_WEIGHT], tally[GAMMA]
    watched, log_ratio, largest = tally[WATCHED], tally[LOG_RATIO], tally[LARGEST]
    squared = tally[LOG_RATIO_SQUARED]
    status = FINISHED
    while steps < max_steps and episodes < max_episodes:
        if not started:
            for i in range(clock[RESET_U]):
                noise[i] = uniform(env_state)
            reset(pointer(params), here, noise)
            t, total, discount, log_weight, started = 0, 0.0, 1.0, 0.0, True
        for i in range(n_obs):
            before[i] = state[i]
        for i in range(n_u):
            uniforms[i] = uniform(action_state)
        choose(policy, sampler, here, uniforms, a)
        if weigh or (watch and steps % WATCH_EVERY == 0):
            of_b = log_behavior(policy, sampler, a)
            of_e = log_prob(policy, policy.out, a)
            ratio = of_b - of_e
            if math.isfinite(ratio):  # a point mass (roa on real actions) has no ratio
                watched += 1.0
                log_ratio += ratio
                squared += ratio * ratio
                largest = max(largest, abs(ratio))
            if weigh:
                log_weight -= ratio
            if keep:
                log_e[steps - first_step] = of_e
                log_b[steps - first_step] = of_b
        for i in range(n_step_u):
            noise[i] = uniform(env_state)
        over = step(pointer(params), here, a, noise, r)
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
            rewards[row] = gain
        update(policy, sampler, obs, a, gain)
        total += discount * gain
        discount *= gamma
        steps += 1
        t += 1
        if over == 1 or t >= horizon:
            end_episode(policy, sampler, total, log_weight)
            e = episodes - first_episode
            returns[e] = total
            ends[e] = steps
            terminated[e] = over
            log_weights[e] = log_weight
            episodes += 1
            started = False
    if status == FINISHED and steps < clock[MAX_STEPS] and episodes < clock[MAX_EPISODES]:
        status = RUNNING_OUT_OF_ROOM
    clock[STEPS], clock[EPISODES], clock[T], clock[STARTED] = steps, episodes, t, 1 if started else 0
    tally[RETURN], tally[DISCOUNT], tally[LOG_WEIGHT] = total, discount, log_weight
    tally[WATCHED], tally[LOG_RATIO], tally[LARGEST] = watched, log_ratio, largest
    tally[LOG_RATIO_SQUARED] = squared
    return status


def _act_kernel(
    policy_arrays: Any,
    sampler_code: Any,
    sampler_arrays: Any,
    clock: Any,
    tally: Any,
    action_rng: Any,
    u: Any,
    action: Any,
    obs: Any,
) -> None:
    policy, sampler = policy_of(policy_arrays), sampler_of(sampler_arrays)
    if clock[STARTED] == 0:
        clock[T], tally[RETURN], tally[DISCOUNT], tally[LOG_WEIGHT], clock[STARTED] = 0, 0.0, 1.0, 0.0, 1
    for i in range(clock[ACTION_U]):
        u[i] = uniform(pointer(action_rng))
    _choose(sampler_code[0], policy)(policy, sampler, pointer(obs), pointer(u), pointer(action))
    if clock[WEIGHTS] or (clock[WATCH] and clock[STEPS] % WATCH_EVERY == 0):
        tally[LOG_B] = _log_behavior(sampler_code[1], policy)(policy, sampler, pointer(action))
        tally[LOG_E] = log_prob(policy, policy.out, pointer(action))
        ratio = tally[LOG_B] - tally[LOG_E]
        if clock[WEIGHTS]:
            tally[LOG_WEIGHT] -= ratio
        if math.isfinite(ratio):
            tally[WATCHED] += 1.0
            tally[LOG_RATIO] += ratio
            tally[LOG_RATIO_SQUARED] += ratio * ratio
            tally[LARGEST] = max(tally[LARGEST], abs(ratio))


def _observe_kernel(
    policy_arrays: Any,
    sampler_code: Any,
    sampler_arrays: Any,
    clock: Any,
    tally: Any,
    action: Any,
    obs: Any,
    reward: Any,
    done: Any,
) -> None:
    policy, sampler = policy_of(policy_arrays), sampler_of(sampler_arrays)
    _update(sampler_code[2], policy)(policy, sampler, pointer(obs), pointer(action), reward)
    tally[RETURN] += tally[DISCOUNT] * reward
    tally[DISCOUNT] *= tally[GAMMA]
    clock[STEPS] += 1
    clock[T] += 1
    if done:
        _end_episode(sampler_code[3], policy)(policy, sampler, tally[RETURN], tally[LOG_WEIGHT])
        clock[EPISODES] += 1
        clock[STARTED] = 0


def _absorb_kernel(
    policy_arrays: Any,
    sampler_code: Any,
    sampler_arrays: Any,
    observations: Any,
    actions: Any,
    rewards: Any,
    ends: Any,
    returns: Any,
    log_weights: Any,
    n_obs: Any,
    n_action: Any,
) -> None:
    """Feed initial data to the sampler, step by step, as if it had just been collected."""
    policy, sampler = policy_of(policy_arrays), sampler_of(sampler_arrays)
    row = 0
    for episode in range(len(ends)):
        while row < ends[episode]:
            obs, action = shift(pointer(observations), row * n_obs), shift(pointer(actions), row * n_action)
            forward(policy, sampler.vectors, 0.0, obs)
            _update(sampler_code[2], policy)(policy, sampler, obs, action, rewards[row])
            row += 1
        _end_episode(sampler_code[3], policy)(policy, sampler, returns[episode], log_weights[episode])


_F, _I, _U = float64[::1], int64[::1], uint64[::1]


@functools.cache
def _run(number: Any) -> Any:
    env = (_I, _F, _F, _F, _U)
    loop = (_I, _F, _U, _F, _F, _F)
    record = (_F, _I, _I, _F, _F, _F, _F, _F, _F)
    return compiled(_run_kernel, int64(*view_types(number), *env, *loop, *record))


@functools.cache
def _act_one(number: Any) -> Any:
    from numba import void

    return compiled(_act_kernel, void(*view_types(number), _I, _F, _U, _F, _F, _F))


@functools.cache
def _observe_one(number: Any) -> Any:
    from numba import boolean, void

    return compiled(_observe_kernel, void(*view_types(number), _I, _F, _F, _F, float64, boolean))


@functools.cache
def _absorb(number: Any) -> Any:
    from numba import void

    return compiled(_absorb_kernel, void(*view_types(number), _F, _F, _F, _I, _F, _F, int64, int64))


# ---- in Python -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Divergence:
    """How far actions were from the policy that is evaluated: KL(π_b ‖ π_e) in nats, on average, from the actions taken.

    largest    |log π_b/π_e| of an action        (both from every step, or from one in WATCH_EVERY where that is cheaper)
    kl_se      standard error of kl
    """

    kl: float  # per step
    kl_per_episode: float
    largest: float
    kl_se: float = 0.0

    @property
    def runs_away(self) -> bool:
        """Trajectories too far from π_e's, and steps too: no longer a correction, whatever the data looks like.

        Measured (docs/auto.md): the paper's step sizes and `auto` reach 2 nats an episode; ros with α = 1000 on
        cartpole 45, with 0.65 a step. Per step, the bandit's 2.0 is harmless, for its episodes are one step long.
        A behaviour with mass on single points (roa, real actions) has no finite KL to watch.
        """
        surely = max(self.kl - 2.0 * self.kl_se, 0.0)
        return math.isfinite(self.kl) and surely > 0.25 and surely * self.kl_per_episode > 16.0 * self.kl


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
        self.memory, self.vectors = memory, vectors
        self.view = (policy.arrays(), sampler_code, (sampler.hyper(policy, value, gamma), vectors, memory))
        self.action_rng, self.env_rng = stream(*seed, 0), stream(*seed, 1)
        self.record_steps = record_steps
        weights = record_weights or record_steps or sampler.needs_weights
        uniforms = policy.action_dim + sampler.extra_uniforms
        self.clock = np.zeros(20, dtype=np.int64)
        self.clock[[HORIZON, ACTION_U, WEIGHTS, RECORD]] = horizon, uniforms, weights, record_steps
        self.clock[[OBS, ACTION]] = policy.obs_dim, policy.action_dim
        self.clock[WATCH] = not sampler.on_policy
        self.tally = np.zeros(12)
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

    @property
    def divergence(self) -> Divergence:
        """How far the behaviour has been from π_e so far, initial data apart."""
        watched, log_ratio, squared, largest = self.tally[[WATCHED, LOG_RATIO, LOG_RATIO_SQUARED, LARGEST]].tolist()
        kl = max(log_ratio / watched, 0.0) if watched else 0.0
        spread = max(squared / watched - kl * kl, 0.0) if watched else 0.0
        length = self.clock[STEPS] / max(self.clock[EPISODES], 1)
        return Divergence(kl, kl * float(length), largest, math.sqrt(spread / max(watched, 1.0)))

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
        room = min(episodes or limit, steps or limit, 65536)
        step_room = min(steps or limit, 65536) if self.record_steps else 0
        chunks: list[tuple[np.ndarray, ...]] = []
        while True:
            clock[[FIRST_EPISODE, FIRST_STEP]] = clock[EPISODES], clock[STEPS]
            clock[[EPISODE_ROOM, STEP_ROOM]] = room, step_room
            per_episode = (np.empty(room), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room))
            widths = (self.policy.obs_dim, self.policy.action_dim, 1, 1, 1)
            per_step = tuple(np.empty(step_room * w) for w in widths)
            status = kernel(
                *self.view,
                env_code,
                env.params,
                state,
                env_u,
                self.env_rng,
                clock,
                self.tally,
                self.action_rng,
                self.u,
                self.action,
                self.reward,
                *per_episode,
                *per_step,
            )
            n, m = int(clock[EPISODES] - clock[FIRST_EPISODE]), int(clock[STEPS] - clock[FIRST_STEP])
            m = m if self.record_steps else 0
            chunks.append(
                (*(x[:n].copy() for x in per_episode), *(x[: m * w].copy() for x, w in zip(per_step, widths, strict=True)))
            )
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
            float(self.tally[GAMMA]),
            int(clock[STEPS]),
            returns,
            ends,
            terminated.astype(bool),
            log_weights if weights else None,
            joined[4].reshape(-1, self.policy.obs_dim) if kept else None,
            joined[5].reshape(-1, self.policy.action_dim) if kept else None,
            joined[6] if kept else None,
            joined[7] if kept else None,
            joined[8] if kept else None,
            horizon=int(clock[HORIZON]),
        )
        return rollouts if self.initial is None else rollouts.after(self.initial)
