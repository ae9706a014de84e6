"""A sampler at work on a policy: what it has learnt from the data so far, and how far it strayed from the policy."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, int64

from evenroll.collection.rollouts import Rollouts
from evenroll.collection.step import Clock, Tally, sampling_types
from evenroll.engine import border
from evenroll.engine.pace import in_parts
from evenroll.engine.pieces import Piece, compiled, number_type, pointer, shift
from evenroll.engine.random import stream
from evenroll.errors import DataError, SpecError
from evenroll.policies import Policy
from evenroll.policies.interface import PolicyCode, forward_e, pieces_called, policy_of
from evenroll.samplers.base import DEFAULT_PIECES, Sampler
from evenroll.samplers.interface import SamplerCode, ending, sampler_of, updating
from evenroll.text.specs import share


@dataclass(frozen=True)
class Divergence:
    """How far the behaviour was from π_e.

    kl              the mean of KL(π_b ‖ π_e) over the steps, in nats: the mean of log π_b/π_e of the actions taken
    kl_se           the standard error of `kl`
    kl_per_episode  `kl` times the mean length of an episode
    largest         the largest |log π_b/π_e| of an action that was looked at
    """

    kl: float
    kl_per_episode: float
    largest: float
    kl_se: float = 0.0

    @property
    def runs_away(self) -> bool:
        """Whether π_b is surely beyond 16 nats an episode and 0.25 a step. This is what studies count, which keep no steps.

        It tells that a sampler strayed, not that its data is worse for it: `evaluate` looks at the data itself. These limits
        were measured (docs/experiments-auto.md, "The guard"): the paper's step sizes and `auto` reach 3 nats an
        episode; ros with α = 1000 on cartpole reaches 45, with 0.65 a step. On the bandit 2.0 nats a step are harmless,
        because its episodes are one step long. A behaviour with mass on single points (roa, real actions) has no finite KL.
        """
        surely = max(self.kl - 2.0 * self.kl_se, 0.0)
        return math.isfinite(self.kl) and surely > 0.25 and surely * self.kl_per_episode > 16.0 * self.kl


def action_stream(seed: int, initial: Rollouts | None) -> tuple[int, ...]:
    """The place in the seed tree for a run that starts from initial data.

    The data may have been collected with the same seed. Were the stream the same, the run would repeat its luck.
    """
    return (seed,) if initial is None else (seed, 4, initial.episodes)


class Balance:
    """A policy, a sampler, its memory and its random stream. Whoever runs them adds an environment.

    value    the scale of returns for samplers that need it (BPG): v(π_e) or a guess
    seed     the place in the seed tree. Actions and environment have a stream each, so that methods can be compared on
             common environment noise
    initial  data that the sampler learns from before its first step
    lanes    how many trajectories run side by side
    """

    def __init__(
        self,
        policy: Policy,
        sampler: Sampler,
        seed: tuple[int, ...],
        *,
        gamma: float,
        value: float = 1.0,
        initial: Rollouts | None = None,
        lanes: int = 1,
    ) -> None:
        gamma = share("gamma", gamma)
        sampler.check(policy)
        initial = None if initial is None else initial.sound()
        self.policy, self.sampler, self.seed, self.initial = policy, sampler, seed, initial
        self.number = number_type(policy.dtype)
        self.settings, self.vectors, self.memory = sampler.arrays(policy, value, gamma, lanes)
        self.arrays = self._arrays()
        self.stream = stream(*seed, 0)
        self.uniforms = np.zeros(policy.action_dim)
        self.clock_array, self.tally_array = np.zeros(Clock.count, dtype=np.int64), np.zeros(Tally.count)
        self.clock, self.tally = Clock(self.clock_array), Tally(self.tally_array)
        self.tally.gamma = gamma
        if initial is not None:
            self._absorb(initial)

    def _arrays(self) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """The arrays behind the views of the policy and of the sampler, with the addresses that their pieces have here."""
        pieces = {**DEFAULT_PIECES, **self.sampler.pieces_for(self.policy)}
        code = np.array([pieces[name].address(self.number) for name in SamplerCode.names], dtype=np.int64)
        return self.policy.arrays(_called(pieces)), (code, self.settings, self.vectors, self.memory)

    def __getstate__(self) -> dict[str, Any]:
        """The balance without addresses: in another process the same pieces lie at other addresses."""
        return {name: value for name, value in self.__dict__.items() if name not in ("arrays", "number")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.number = number_type(self.policy.dtype)
        self.arrays = self._arrays()

    def _absorb(self, initial: Rollouts) -> None:
        if initial.unfinished:
            raise SpecError("initial data must consist of finished trajectories")
        n, steps, policy = initial.episodes, initial.steps, self.policy
        weights = initial.log_weights if initial.log_weights is not None else np.zeros(n)
        data = (
            policy.checked_observations(initial.column("observations"), DataError, steps).ravel(),
            policy.checked_actions(initial.column("actions"), DataError, steps).ravel(),
            border.shaped("rewards", initial.column("rewards"), (steps,), DataError),
            initial.ends,
            border.shaped("returns", initial.returns, (n,), DataError),
            np.array(weights),
        )
        call, episode = _absorb(self.number), 0
        for first, last in in_parts(steps, self.size):
            episode = int(call(*self.arrays, *data, policy.obs_dim, policy.action_dim, first, last, episode))

    @property
    def size(self) -> int:
        """How many numbers a step may work on at most: the weights, what the sampler remembers, and what it tries."""
        return self.policy.parameters + len(self.vectors) + len(self.memory) + self.sampler.work(self.policy)

    @property
    def divergence(self) -> Divergence:
        """How far the behaviour has been from π_e so far, without the initial data."""
        watched, log_ratio, squared = float(self.tally.watched), float(self.tally.log_ratio), self.tally.log_ratio_squared
        kl = max(log_ratio / watched, 0.0) if watched else 0.0
        spread = max(float(squared) / watched - kl * kl, 0.0) if watched else 0.0
        length = self.clock.steps / max(self.clock.episodes, 1)
        return Divergence(kl, kl * float(length), float(self.tally.largest), math.sqrt(spread / max(watched, 1.0)))


def _called(pieces: dict[str, Piece]) -> frozenset[str]:
    """The policy's pieces that will be called: by the sampler, and by the loops that run it.

    What a sampler of somebody else calls may not be as plain to see; it gets all of them.
    """
    if not all(piece.__module__.startswith("evenroll.") for piece in pieces.values()):
        return frozenset(PolicyCode.names)
    return frozenset({"forward_e", "log_prob"}).union(*map(pieces_called, pieces.values()))


def _absorb_kernel(
    policy_arrays: Any, sampler_arrays: Any, observations: Any, actions: Any, rewards: Any, ends: Any, returns: Any,
    log_weights: Any, n_obs: Any, n_action: Any, first: Any, last: Any, episode: Any,
) -> int:  # fmt: skip
    """Feed a part of initial data to the sampler, step by step, as if it had just been collected.

    first, last  the rows of this part; its first row belongs to this `episode`. Returns the episode of the next part.
    """
    policy, sampler = policy_of(policy_arrays), sampler_of(sampler_arrays)
    update, end_episode = updating(policy, sampler), ending(policy, sampler)
    for row in range(first, last):
        obs, action = shift(pointer(observations), row * n_obs), shift(pointer(actions), row * n_action)
        forward_e(policy, obs)
        update(policy, sampler, obs, action, rewards[row])
        if row + 1 == ends[episode]:
            end_episode(policy, sampler, returns[episode], log_weights[episode])
            episode += 1
    return episode


@functools.cache
def _absorb(number: Any) -> Any:
    floats = float64[::1]
    data = (floats, floats, floats, int64[::1], floats, floats, int64, int64, int64, int64, int64)
    return compiled(_absorb_kernel, int64(*sampling_types(number), *data))
