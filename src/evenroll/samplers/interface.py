"""What compiled code sees of a sampler, and the signatures of its pieces."""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import float64, int64, njit, types

from evenroll.engine.pieces import FLOATS, Floats, Reals, function_at
from evenroll.engine.views import Fields, arrays_type, interface, view_of_arrays
from evenroll.policies.interface import PolicyView


class SamplerCode(Fields, number=int64):
    """The addresses of a sampler's pieces."""

    choose: int
    log_behavior: int
    update: int
    end_episode: int


class SamplerView(NamedTuple):
    """What compiled code sees of a sampler. Each sampler's file names the entries of `settings` and `memory`."""

    code: SamplerCode
    settings: Floats  # hyper-parameters and sizes, fixed
    vectors: Reals  # parameter-shaped state, for example S = Σ ∇log π_e
    memory: Floats  # everything else that changes


sampler_of = view_of_arrays(SamplerView)


def sampler_arrays(number: Any) -> Any:
    """The Numba type of the tuple of arrays behind a SamplerView."""
    return arrays_type(SamplerView, number)


_both = {"policy": PolicyView, "sampler": SamplerView}
_void = types.void
# P is the policy, M the sampler.
CHOOSE = interface("choose", lambda R, P, M: _void(P, M, FLOATS, FLOATS, FLOATS), **_both)
LOG_BEHAVIOR = interface("log_behavior", lambda R, P, M: float64(P, M, FLOATS), **_both)
UPDATE = interface("update", lambda R, P, M: _void(P, M, FLOATS, FLOATS, float64), **_both)
END_EPISODE = interface("end_episode", lambda R, P, M: _void(P, M, float64, float64), **_both)

_choose, _log_behavior = function_at(CHOOSE), function_at(LOG_BEHAVIOR)
_update, _end_episode = function_at(UPDATE), function_at(END_EPISODE)


@njit
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    """Choose an action for an observation, from uniform numbers."""
    _choose(sampler.code.choose, policy)(policy, sampler, obs, u, action)


@njit
def log_behavior(policy: PolicyView, sampler: SamplerView, action: Floats) -> float:
    """log π_b of the action just chosen."""
    return _log_behavior(sampler.code.log_behavior, policy)(policy, sampler, action)


@njit
def update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    """Let the sampler learn from a step."""
    _update(sampler.code.update, policy)(policy, sampler, obs, action, reward)


@njit
def end_episode(policy: PolicyView, sampler: SamplerView, episode_return: float, log_weight: float) -> None:
    """Let the sampler learn from a finished trajectory."""
    _end_episode(sampler.code.end_episode, policy)(policy, sampler, episode_return, log_weight)
