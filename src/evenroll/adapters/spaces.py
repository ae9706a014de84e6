"""Gymnasium's spaces as the engine sees them. Observations and actions are rows of float64."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.engine import border
from evenroll.errors import PolicyError, SpecError
from evenroll.policies.distributions import Categorical, Distribution, Gaussian

TABLE_SIZE = 20_000  # up to this many numbered states a policy is written out as a table


@dataclass(frozen=True, eq=False)
class Actions:
    """The actions of an environment. Either `choices` or `real` is given.

    choices  how many values each discrete factor has
    real     how many dimensions a real action has

    The sampler balances the row as it was drawn. The environment gets `to_env` of it, clipped to the bounds of a Box.
    """

    space: gym.Space[Any]
    choices: tuple[int, ...]
    real: int

    @classmethod
    def of(cls, space: gym.Space[Any]) -> Actions:
        if isinstance(space, gym.spaces.Discrete):
            return cls(space, (int(space.n),), 0)
        if isinstance(space, gym.spaces.MultiDiscrete):
            return cls(space, tuple(int(n) for n in np.ravel(space.nvec)), 0)
        if isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
            return cls(space, (), int(np.prod(space.shape)))
        raise SpecError(f"actions of type {space} are not supported: Discrete, MultiDiscrete or a Box of real numbers")

    @functools.cached_property
    def dim(self) -> int:
        return len(self.choices) or self.real

    @functools.cached_property
    def distribution(self) -> Distribution:
        """The family of the actions' distributions, described by logits, or by means and log scales.

        `Policy.parameters_of_actions` gives these numbers.
        """
        return Categorical(self.choices) if self.choices else Gaussian(self.real)

    @functools.cached_property
    def _low(self) -> np.ndarray:
        return np.ravel(self.space.low).astype(np.float64)  # type: ignore[attr-defined]

    @functools.cached_property
    def _high(self) -> np.ndarray:
        return np.ravel(self.space.high).astype(np.float64)  # type: ignore[attr-defined]

    @functools.cached_property
    def _first(self) -> int | None:
        """The number of the first action of a Discrete space."""
        return int(self.space.start) if isinstance(self.space, gym.spaces.Discrete) else None

    @functools.cached_property
    def _start(self) -> Any:
        return self.space.start  # type: ignore[attr-defined]

    def to_env(self, row: np.ndarray) -> Any:
        """One action [dim] as the environment wants it."""
        if self._first is not None:
            return int(row[0]) + self._first
        if not self.choices:
            clipped = np.minimum(np.maximum(row, self._low), self._high)
            return clipped.astype(self.space.dtype).reshape(self.space.shape)
        return (row.astype(np.int64).reshape(self.space.shape) + self._start).astype(self.space.dtype)

    def to_envs(self, rows: np.ndarray) -> np.ndarray:
        """Actions [lanes, dim] of a vector environment."""
        if not self.choices:
            rows = np.clip(rows, self._low, self._high).astype(self.space.dtype)
            return rows.reshape(len(rows), *self.space.shape)  # type: ignore[misc]
        whole = rows.astype(np.int64)
        if isinstance(self.space, gym.spaces.Discrete):
            return np.asarray(whole[:, 0] + int(self._start))
        return np.asarray(whole.reshape(len(rows), *self.space.shape) + self._start)  # type: ignore[misc]

    def from_env(self, actions: Any) -> np.ndarray:
        """Recorded actions [N, …] as rows [N, dim]."""
        rows = np.asarray(actions)
        if isinstance(self.space, gym.spaces.Discrete):
            return np.asarray(rows.reshape(-1, 1) - int(self._start), dtype=np.float64)
        if self.choices:
            return np.asarray(rows.reshape(len(rows), -1) - np.ravel(self._start), dtype=np.float64)
        return np.asarray(rows.reshape(len(rows), -1), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Observations:
    """The observations of an environment: numbered states, or arrays of a fixed shape."""

    space: gym.Space[Any]
    n_states: int | None
    shape: tuple[int, ...]
    start: int = 0

    @classmethod
    def of(cls, space: gym.Space[Any]) -> Observations:
        if isinstance(space, gym.spaces.Discrete):
            return cls(space, int(space.n), (), int(space.start))
        if isinstance(space, gym.spaces.Box | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary):
            return cls(space, None, tuple(int(n) for n in space.shape))
        raise SpecError(
            f"observations of type {type(space).__name__} are not arrays; wrap the environment, for example with "
            "gymnasium.wrappers.FlattenObservation"
        )

    @functools.cached_property
    def size(self) -> int:
        return 1 if self.n_states is not None else int(np.prod(self.shape))

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.space.dtype or np.float64)

    def rows(self, observations: Any) -> np.ndarray:
        """A batch [lanes, …] as float64 rows [lanes, size]. Numbered states count from 0."""
        given = border.numbers("the observations", observations)
        if given.ndim == 0 or given.size != len(given) * self.size:
            raise SpecError(f"an observation has {self.size} numbers; those given have shape {list(given.shape)}")
        rows = given.reshape(len(given), self.size).astype(np.float64)
        if self.n_states is not None:
            rows = border.places("a state number was observed", rows - self.start, (self.n_states,))
        return np.ascontiguousarray(rows)

    def probes(self, n: int = 48) -> np.ndarray:
        """n observations [n, …] to try a network on. They lie within the bounds; without bounds they get ever larger."""
        rng = np.random.default_rng(0)
        if self.n_states is not None:
            return np.asarray(self.start + rng.integers(self.n_states, size=n))
        if not isinstance(self.space, gym.spaces.Box):
            return np.stack([np.asarray(self.space.sample()) for _ in range(n)])
        low, high = (np.broadcast_to(x, self.shape).astype(np.float64) for x in (self.space.low, self.space.high))
        bounded = np.isfinite(low) & np.isfinite(high) & (high - low < 1e6)
        scale = np.repeat([0.1, 1.0, 10.0], -(-n // 3))[:n].reshape(n, *[1] * len(self.shape))
        wide = np.clip(rng.standard_normal((n, *self.shape)) * scale, low, high)
        even = np.where(bounded, low, 0.0) + rng.random((n, *self.shape)) * np.where(bounded, high - low, 1.0)
        return np.asarray(np.where(bounded, even, wide)).astype(self.space.dtype)


def check_fit(what: str, obs_dim: int, observations: Observations) -> None:
    if obs_dim != observations.size:
        raise PolicyError(f"{what} takes observations of {obs_dim} numbers, the environment's have {observations.size}")
