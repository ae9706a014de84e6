"""What compiled code sees of a sampler, and the signatures of its pieces."""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import float64, int64, types

from evenroll.engine.helpers import helper
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


@helper
def choosing(policy: PolicyView, sampler: SamplerView) -> Any:
    """The sampler's `choose`. A loop asks once for the pieces that it calls at every step."""
    return _choose(sampler.code.choose, policy)


@helper
def weighing(policy: PolicyView, sampler: SamplerView) -> Any:
    """The sampler's `log_behavior`: log π_b of the action just chosen."""
    return _log_behavior(sampler.code.log_behavior, policy)


@helper
def updating(policy: PolicyView, sampler: SamplerView) -> Any:
    """The sampler's `update`: what it learns from a step."""
    return _update(sampler.code.update, policy)


@helper
def ending(policy: PolicyView, sampler: SamplerView) -> Any:
    """The sampler's `end_episode`: what it learns from a finished trajectory."""
    return _end_episode(sampler.code.end_episode, policy)
