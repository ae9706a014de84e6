"""The compiled environments as Gymnasium environments: the same machine code, one step at a time.

`gymnasium.make` takes the id of a built-in domain and its parameters; `make_environment` takes a domain of one's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numba import float64, int64

from evenroll.domains.catalogue import get_domain
from evenroll.domains.domain import Domain
from evenroll.domains.environment import STEP, Environment, EnvironmentCode, reset_one
from evenroll.engine import border
from evenroll.engine.pieces import compiled, function_at, pointer
from evenroll.errors import SpecError


def make_environment(domain: Domain) -> gym.Env[Any, Any]:
    """A domain as Gymnasium would make it: with its horizon as the time limit, and Gymnasium's checks around it."""

    def make(**options: Any) -> DomainEnv:
        return DomainEnv(domain)

    return gym.make(gym.envs.registration.EnvSpec("evenroll/Domain-v0", entry_point=make, max_episode_steps=domain.horizon))


class DomainEnv(gym.Env[Any, Any]):
    """A domain, or a built-in one by name with its parameters. Gymnasium's TimeLimit applies the domain's horizon."""

    def __init__(self, domain: str | Domain, **parameters: float) -> None:
        text = ",".join(f"{key}={value}" for key, value in parameters.items())
        if isinstance(domain, Domain) and text:
            raise SpecError(f"{domain} is made already: {text} can no longer be given to it")
        self.domain = domain if isinstance(domain, Domain) else get_domain(domain + (":" + text if text else ""))
        self._env = env = self.domain.environment(None)
        self.observation_space: gym.Space[Any] = (
            gym.spaces.Discrete(env.n_states)
            if env.n_states is not None
            else gym.spaces.Box(-np.inf, np.inf, (env.obs_dim,), np.float64)
        )
        self.action_space: gym.Space[Any] = (
            gym.spaces.Discrete(env.n_actions)
            if env.n_actions is not None
            else gym.spaces.Box(-np.inf, np.inf, (env.action_dim,), np.float64)
        )
        self.uniform: Callable[[], float] | None = None  # where random numbers come from, if not from the env's own
        self._state, self._reward = np.zeros(env.state_dim), np.zeros(1)
        self._action = np.zeros(env.action_dim)
        self._u = np.zeros(max(1, env.reset_uniforms, env.step_uniforms))
        self._choices = 0 if env.n_actions is None else env.n_actions
        self._code = env.code(float64)

    def __getstate__(self) -> dict[str, Any]:
        """The environment without addresses: in another process the same pieces lie at other addresses."""
        return {name: value for name, value in self.__dict__.items() if name != "_code"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._code = self._env.code(float64)

    def _fill(self, n: int) -> None:
        for i in range(n):
            if self.uniform is None:
                self._u[i] = max(self.np_random.random(), 2.0**-53)
            else:
                self._u[i] = float(border.single("a random number", self.uniform(), 1)[0])
                if not 0.0 < self._u[i] < 1.0:
                    raise SpecError(f"a random number lies between 0 and 1, not at {self._u[i]}")

    def _take(self, action: Any) -> None:
        """Write the action where the compiled step finds it, if it is one."""
        if self._choices:
            if not isinstance(action, int | np.integer):
                number = border.single("the action", action, 1)[0]
                action = int(number) if number == np.floor(number) else -1
            if not 0 <= action < self._choices:
                raise SpecError(f"the action must be a whole number, 0 … {self._choices - 1}")
            self._action[0] = action
        else:
            self._action[:] = border.single("the action", action, len(self._action))

    def _observation(self) -> Any:
        if self._env.n_states is not None:
            return np.int64(self._state[0])
        return self._state[: self._env.obs_dim].copy()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if self.domain.redrawn:
            rng = np.random.RandomState(int(self.np_random.integers(2**32)))
            self._env = self._redrawn(rng)
        self._fill(self._env.reset_uniforms)
        reset_one()(self._code, self._env.params, self._state, self._u)
        return self._observation(), {}

    def _redrawn(self, rng: np.random.RandomState) -> Environment:
        """Another environment of the same domain. It must have the sizes that there is room for."""
        drawn = self.domain.environment(rng)
        sizes = [
            (e.state_dim, e.obs_dim, e.n_actions, e.action_dim, e.reset_uniforms, e.step_uniforms, e.n_states)
            for e in (drawn, self._env)
        ]
        if sizes[0] != sizes[1] or len(drawn.params) != len(self._env.params):
            raise SpecError(f"{self.domain}: a redrawn environment must have the sizes of the first one")
        self._code = drawn.code(float64)
        return drawn

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._take(action)
        self._fill(self._env.step_uniforms)
        over = _step_one()(self._code, self._env.params, self._state, self._action, self._u, self._reward)
        return self._observation(), float(self._reward[0]), bool(over), False, {}


_step = function_at(STEP)


def _step_kernel(code: Any, params: Any, state: Any, action: Any, u: Any, reward: Any) -> int:
    return _step(EnvironmentCode(code).step, 0)(
        pointer(params), pointer(state), pointer(action), pointer(u), pointer(reward)
    )


@functools.cache
def _step_one() -> Any:
    return compiled(_step_kernel, int64(int64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1]))
