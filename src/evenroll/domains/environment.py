"""A compiled environment: its two pieces, its parameters and its sizes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, int64, types, void

from evenroll.engine import border
from evenroll.engine.pieces import FLOATS, Interface, Piece, compiled, function_at, pointer
from evenroll.engine.views import Fields
from evenroll.errors import PolicyError, SpecError
from evenroll.policies import Policy
from evenroll.text.specs import whole_number

# reset(params, state, u); step(params, state, action, u, reward) → 1 if the trajectory has ended, else 0
RESET = Interface("reset", lambda n: types.void(FLOATS, FLOATS, FLOATS))
STEP = Interface("step", lambda n: int64(FLOATS, FLOATS, FLOATS, FLOATS, FLOATS))


LARGEST = 10_000_000  # numbers of a state or an action: 80 MB for each trial


class EnvironmentCode(Fields, number=int64):
    """The addresses of an environment's pieces."""

    reset: int
    step: int


class EnvironmentSizes(Fields, number=int64):
    """How many numbers an environment takes and gives, for the loop that runs it."""

    reset_uniforms: int
    step_uniforms: int
    obs_dim: int


@dataclass(frozen=True, eq=False)
class Environment:
    """A compiled environment. The observation is the head of the state.

    reset, step     pieces; `u` are uniform numbers that the loop hands in, as many as the last two fields say
    n_actions       None if actions are real vectors of length `action_dim`
    n_states        where the observation is a state's number, how many there are
    """

    reset: Piece
    step: Piece
    params: np.ndarray
    state_dim: int
    obs_dim: int
    n_actions: int | None
    action_dim: int
    reset_uniforms: int
    step_uniforms: int
    n_states: int | None = None

    def __post_init__(self) -> None:
        """Check what compiled code relies on: the pieces' interfaces, and sizes that fit together."""
        for name, interface in (("reset", RESET), ("step", STEP)):
            piece = getattr(self, name)
            if not isinstance(piece, Piece) or piece.interface is not interface:
                raise SpecError(f"{name} must be a function with the decorator @piece({name.upper()})")
        for name in ("state_dim", "obs_dim", "action_dim"):
            whole_number(name, getattr(self, name), 1)
        for name in ("reset_uniforms", "step_uniforms"):
            whole_number(name, getattr(self, name), 0)
        if max(self.state_dim, self.action_dim, self.reset_uniforms, self.step_uniforms) > LARGEST:
            raise SpecError(f"an environment's states, actions and random numbers are at most {LARGEST:,} numbers long")
        for name in ("n_actions", "n_states"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), 1)
        if self.obs_dim > self.state_dim or (self.n_states is not None and self.obs_dim != 1):
            raise SpecError(f"an observation of {self.obs_dim} numbers is not the head of a state of {self.state_dim}")
        params = np.ascontiguousarray(border.numbers("params", self.params), dtype=np.float64).ravel()
        object.__setattr__(self, "params", params)

    @property
    def certain(self) -> bool:
        """Whether it leaves nothing to chance: it takes no random numbers, so that actions alone settle what happens."""
        return self.reset_uniforms == self.step_uniforms == 0

    def code(self, number: Any) -> np.ndarray:
        """Addresses of the pieces, in the order of `EnvironmentCode`."""
        return np.array([self.reset.address(number), self.step.address(number)], dtype=np.int64)

    def sizes(self) -> np.ndarray:
        """The sizes that the loop needs, in the order of `EnvironmentSizes`."""
        return np.array([self.reset_uniforms, self.step_uniforms, self.obs_dim], dtype=np.int64)

    def starts(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """What `count` episodes begin with, [count, obs_dim]. No step is taken."""
        state, found = np.zeros(self.state_dim), np.empty((count, self.obs_dim))
        uniform = np.maximum(rng.random((count, max(self.reset_uniforms, 1))), 2.0**-53)
        code = self.code(float64)
        for row, u in zip(found, uniform, strict=True):
            reset_one()(code, self.params, state, u)
            row[:] = state[: self.obs_dim]
        return found

    def check(self, policy: Policy) -> None:
        """Raise a `PolicyError` if the policy was made for other observations or actions."""
        if (policy.obs_dim, policy.n_actions, policy.action_dim) != (self.obs_dim, self.n_actions, self.action_dim):
            raise PolicyError(f"the policy has {_shape(policy)}, the domain has {_shape(self)}")
        if self.n_states != policy.n_states:
            mine = f"numbers its states (0 … {self.n_states - 1})" if self.n_states else "has vector observations"
            raise PolicyError(f"the domain {mine}; the policy does not fit")


def _shape(x: Any) -> str:
    actions = f"{x.n_actions} actions" if x.n_actions is not None else f"{x.action_dim}-d real actions"
    return f"{x.obs_dim}-d observations and {actions}"


_reset = function_at(RESET)


def _reset_kernel(code: Any, params: Any, state: Any, u: Any) -> None:
    _reset(EnvironmentCode(code).reset, 0)(pointer(params), pointer(state), pointer(u))


@functools.cache
def reset_one() -> Any:
    """Compiled: call the piece `reset` once, for those who take single steps."""
    return compiled(_reset_kernel, void(int64[::1], float64[::1], float64[::1], float64[::1]))
