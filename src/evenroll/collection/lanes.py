"""Several trajectories side by side with one sampler. A step of all of them is one compiled call.

`update` follows `choose` at once, lane by lane. This is possible because a sampler learns from the state and the action of a
step, not from its reward. So no lane waits for the environment, and every action takes account of all actions chosen before
it, also those of other lanes in the same step. With one lane the actions are those of a whole trial (`Driver.run`), bit for
bit.
"""

from __future__ import annotations

import functools
import heapq
import math
from typing import Any

import numpy as np
from numba import float64, int64, uint64, void

from evenroll.collection.balance import Balance, Divergence
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.step import Clock, Tally, choose_and_watch, sampling_types
from evenroll.engine import border
from evenroll.engine.pace import in_parts
from evenroll.engine.pieces import compiled, pointer, shift
from evenroll.engine.simd import narrow
from evenroll.errors import SpecError
from evenroll.policies import Policy
from evenroll.policies.interface import forward_e, policy_of
from evenroll.samplers import Sampler
from evenroll.samplers.interface import choosing, ending, sampler_of, updating, weighing
from evenroll.text.specs import whole_number

MADE_ANEW = ("_advance", "_end", "_ends", "_start", "first", "once")  # what `_join` gathers
SOUND, BAD_OBSERVATION, IMPOSSIBLE = -1, 0, 1  # what `Lanes.advance` reports (the latter two: plus 2·lane)


def _advance_kernel(
    policy_arrays: Any, sampler_arrays: Any, clock_array: Any, tally_array: Any, stream: Any, u: Any, slots: Any,
    trajectories: Any, place: int, states: int, actions: Any, log_e: Any, log_b: Any, active: Any, obs: Any,
) -> int:  # fmt: skip
    """Choose an action for every lane, and learn from the active lanes. Returns SOUND, or 2·lane + what is wrong.

    A state of a table (`states` is not 0) is a place in memory, so it is looked at in every lane. The number of the lane is
    written to `place` in the sampler's memory, unless that is −1.
    """
    policy, sampler = policy_of(policy_arrays), sampler_of(sampler_arrays)
    clock, tally = Clock(clock_array), Tally(tally_array)
    choose, log_behavior, update = choosing(policy, sampler), weighing(policy, sampler), updating(policy, sampler)
    lanes, n_obs, n_action, n_slots = len(active), obs.shape[1], actions.shape[1], len(slots)
    for e in range(lanes):
        if active[e] == 1:
            for i in range(n_obs):
                if not math.isfinite(narrow(obs[e, i], policy.theta)):  # a network may be in single precision
                    return 2 * e + BAD_OBSERVATION
        if states > 0 and not (obs[e, 0] >= 0.0 and obs[e, 0] < states and obs[e, 0] == math.floor(obs[e, 0])):
            return 2 * e + BAD_OBSERVATION
    for e in range(lanes):
        for i in range(n_slots):
            sampler.memory[slots[i]] = trajectories[e, i]
        if place >= 0:
            sampler.memory[place] = e
        here, a = shift(pointer(obs), e * n_obs), shift(pointer(actions), e * n_action)
        is_active = active[e] == 1
        of_e, of_b = choose_and_watch(
            policy, sampler, choose, log_behavior, tally, pointer(stream), len(u), pointer(u), here, a, is_active
        )
        if is_active:
            log_e[e], log_b[e] = of_e, of_b
            if not math.isfinite(of_e):
                return 2 * e + IMPOSSIBLE
            update(policy, sampler, here, a, 0.0)
            clock.steps += 1
        for i in range(n_slots):
            trajectories[e, i] = sampler.memory[slots[i]]
    return SOUND


def _end_kernel(policy_arrays: Any, sampler_arrays: Any, slots: Any, trajectories: Any, place: Any, e: Any) -> None:
    policy, sampler = policy_of(policy_arrays), sampler_of(sampler_arrays)
    for i in range(len(slots)):
        sampler.memory[slots[i]] = trajectories[e, i]
    if place >= 0:
        sampler.memory[place] = e
    ending(policy, sampler)(policy, sampler, 0.0, 0.0)
    for i in range(len(slots)):
        trajectories[e, i] = sampler.memory[slots[i]]


def _replay_kernel(
    policy_arrays: Any, sampler_arrays: Any, slots: Any, trajectories: Any, place: Any, room: Any, u: Any, scratch: Any,
    lane: Any, last: Any, obs: Any, actions: Any, first: Any, end: Any,
) -> None:  # fmt: skip
    """Learn from recorded steps in their order, as `_advance_kernel` and `_end_kernel` did when they were taken.

    A sampler that has numbers for each lane counts what it expected of an action: it makes its choice again, which is then
    ignored (`u`, `scratch`).

    room        which lane's numbers each trajectory may use while it runs
    first, end  which rows: the first, and the first that is left for another call
    """
    policy, sampler = policy_of(policy_arrays), sampler_of(sampler_arrays)
    choose, update, end_episode = choosing(policy, sampler), updating(policy, sampler), ending(policy, sampler)
    n_obs, n_action, n_slots = obs.shape[1], actions.shape[1], len(slots)
    for row in range(first, end):
        e = lane[row]
        for i in range(n_slots):
            sampler.memory[slots[i]] = trajectories[e, i]
        if place >= 0:
            sampler.memory[place] = room[e]
        here, a = shift(pointer(obs), row * n_obs), shift(pointer(actions), row * n_action)
        if place >= 0:
            choose(policy, sampler, here, pointer(u), pointer(scratch))
        else:
            forward_e(policy, here)
        update(policy, sampler, here, a, 0.0)
        if last[row] == 1:
            end_episode(policy, sampler, 0.0, 0.0)
        for i in range(n_slots):
            trajectories[e, i] = sampler.memory[slots[i]]


@functools.cache
def _advance(number: Any) -> Any:
    floats, ints, table = float64[::1], int64[::1], float64[:, ::1]
    loop = (ints, floats, uint64[::1], floats, ints, table, int64, int64, table, floats, floats, ints, table)
    return compiled(_advance_kernel, int64(*sampling_types(number), *loop))


@functools.cache
def _end(number: Any) -> Any:
    return compiled(_end_kernel, void(*sampling_types(number), int64[::1], float64[:, ::1], int64, int64))


@functools.cache
def _replay(number: Any) -> Any:
    ints, table = int64[::1], float64[:, ::1]
    data = (ints, table, int64, ints, float64[::1], float64[::1], ints, ints, table, table, int64, int64)
    return compiled(_replay_kernel, void(*sampling_types(number), *data))


class Lanes:
    """The balance that all lanes share, and what belongs to each lane's own trajectory.

    actions [lanes, dim], log_e [lanes] and log_b [lanes] are those of the last `advance`. The next one overwrites them.
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
        if sampler.whole_trials_only is not None:
            raise SpecError(f"{sampler.name} {sampler.whole_trials_only}: it runs on the built-in domains only")
        self.balance = balance = Balance(policy, sampler, seed, gamma=gamma, initial=initial, lanes=lanes)
        self.place = -1 if sampler.lane is None else sampler.memory.names.index(sampler.lane)
        self.slots = np.array([sampler.memory.names.index(name) for name in sampler.trajectory], dtype=np.int64)
        self.trajectories = np.tile(balance.memory[self.slots], (lanes, 1))
        self.actions = np.zeros((lanes, policy.action_dim))
        self.log_e, self.log_b = np.zeros(lanes), np.zeros(lanes)
        self.observations, self.everyone = np.zeros((lanes, policy.obs_dim)), np.ones(lanes, dtype=np.int64)
        self._new = functools.partial(Balance, policy, sampler, seed, gamma=gamma, initial=initial, lanes=lanes)
        self._join()

    def _join(self) -> None:
        """Gather what the compiled calls take."""
        balance = self.balance
        self._advance, self._end = _advance(balance.number), _end(balance.number)
        self._ends = (*balance.arrays, self.slots, self.trajectories, self.place)
        self._start = (
            *balance.arrays, balance.clock_array, balance.tally_array, balance.stream, balance.uniforms, self.slots,
            self.trajectories, self.place, balance.policy.n_states or 0, self.actions, self.log_e, self.log_b,
        )  # fmt: skip
        # For a caller who has filled `observations` (`first` is that of the first lane): a step in which all are active.
        self.first, self.once = (
            self.observations[0],
            functools.partial(self._advance, *self._start, self.everyone, self.observations),
        )

    def __getstate__(self) -> dict[str, Any]:
        """The lanes without what holds addresses, which mean nothing in another process."""
        return {name: value for name, value in self.__dict__.items() if name not in MADE_ANEW}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._join()

    def advance(self, encoded: np.ndarray, active: np.ndarray) -> int:
        """Act on encoded observations [lanes, obs_dim]. The sampler learns from the active lanes [lanes] only.

        `observations` and `everyone` are arrays of the right shape and type, which the caller may fill and hand in: they
        alone are not looked at again. Anything else is copied, so that nothing can change between check and use.
        """
        if encoded is not self.observations:
            given = border.numbers("observations", encoded)
            if given.shape != self.observations.shape:
                raise SpecError(f"observations must have shape {list(self.observations.shape)}, not {list(given.shape)}")
            self.observations[...] = given
        if active is not self.everyone:
            active = border.flags("active", active, len(self.everyone))
        return int(self._advance(*self._start, active, self.observations))

    def end(self, lane: int) -> None:
        """Tell the sampler that a lane's trajectory is over."""
        lane = whole_number("lane", lane, 0)
        if lane >= len(self.everyone):
            raise SpecError(f"there is no lane {lane}, only 0 … {len(self.everyone) - 1}")
        self._end(*self._ends, lane)
        self.balance.clock.episodes += 1

    def replay(
        self, owner: np.ndarray, last: np.ndarray, encoded: np.ndarray, actions: np.ndarray, log_e: np.ndarray,
        log_b: np.ndarray, of_lane: list[int],
    ) -> None:  # fmt: skip
        """Forget everything but the initial data, then learn from these steps [N] alone, in this order.

        owner    [N] the number of the trajectory that the step belongs to, from 0
        last     [N] 1 where the step was the last of its trajectory
        of_lane  the number of the trajectory that each lane goes on with, or −1

        The random numbers are not taken back: what is drawn next is new luck.
        """
        n, policy = len(owner), self.balance.policy
        encoded, actions = policy.checked_observations(encoded, SpecError, n), policy.checked_actions(actions, SpecError, n)
        last = border.flags("last", last, n)
        if owner.dtype != np.int64 or (owner < 0).any() or (owner >= max(n, 1)).any() or len(of_lane) != len(self.everyone):
            raise SpecError("the owners of the steps are numbers of trajectories, from 0, and each lane has one or −1")
        balance, new = self.balance, self._new()
        balance.vectors[...], balance.memory[...] = new.vectors, new.memory
        balance.clock_array[...], balance.tally_array[...] = new.clock_array, new.tally_array
        start = balance.memory[self.slots].copy()
        own = np.tile(start, (max([int(owner.max(initial=0)), *of_lane]) + 1, 1))
        room = rooms(owner, last, len(own), len(of_lane))
        scratch = np.full(policy.action_dim, 0.5), np.zeros(policy.action_dim)
        for first, end in in_parts(n, balance.size):
            _replay(balance.number)(
                *balance.arrays, self.slots, own, self.place, room, *scratch, owner, last, encoded, actions, first, end
            )
        each = balance.sampler.each(policy)
        rows = balance.vectors[len(balance.vectors) - len(of_lane) * each :].reshape(len(of_lane), each)
        used = rows.copy()
        for lane, trajectory in enumerate(of_lane):
            self.trajectories[lane] = start if trajectory < 0 else own[trajectory]
            rows[lane] = 0.0 if trajectory < 0 else used[room[trajectory]]
        balance.clock.steps, balance.clock.episodes = len(owner), int(last.sum())
        ratios = (log_b - log_e)[np.isfinite(log_b - log_e)]
        if len(ratios):  # summed one after the other, as they were when the steps were taken
            tally = balance.tally
            tally.watched, tally.largest = len(ratios), np.abs(ratios).max()
            tally.log_ratio, tally.log_ratio_squared = np.cumsum(ratios)[-1], np.cumsum(ratios * ratios)[-1]

    @property
    def divergence(self) -> Divergence:
        return self.balance.divergence

    def state(self) -> dict[str, np.ndarray]:
        """Everything that the next step depends on, as arrays to be saved or overwritten."""
        balance = self.balance
        return {
            "vectors": balance.vectors,
            "memory": balance.memory,
            "clock": balance.clock_array,
            "tally": balance.tally_array,
            "rng": balance.stream,
            "trajectories": self.trajectories,
            "actions": self.actions,
            "log_e": self.log_e,
            "log_b": self.log_b,
        }


def rooms(owner: np.ndarray, last: np.ndarray, trajectories: int, lanes: int) -> np.ndarray:
    """For every trajectory a lane whose numbers are free while it runs: of two that run at the same time none shares one.

    owner, last  [N] the trajectory of every step, and 1 where the step is its last, in the order in which they were taken
    """
    n = len(owner)
    begin, end = np.full(trajectories, n), np.full(trajectories, n)
    begin[owner[::-1]] = np.arange(n)[::-1]
    end[owner[last == 1]] = np.flatnonzero(last)
    room, free, busy = np.zeros(trajectories, dtype=np.int64), list(range(lanes)), list[tuple[int, int]]()
    for trajectory in np.argsort(begin, kind="stable"):
        while busy and busy[0][0] < begin[trajectory]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if begin[trajectory] == n:
            break  # it has no steps
        if not free:
            raise SpecError(f"more than {lanes} trajectories run side by side")
        room[trajectory] = heapq.heappop(free)
        heapq.heappush(busy, (int(end[trajectory]), int(room[trajectory])))
    return room
