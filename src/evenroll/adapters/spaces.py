"""Gymnasium's spaces as the engine sees them. Observations and actions are rows of float64."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.engine import border
from evenroll.errors import PolicyError, SpecError
from evenroll.policies.distributions import Categorical, Distribution, Gaussian

TABLE_SIZE = 20_000  # up to this many numbered states a policy is written out as a table
MOST_WHOLE = 1000  # a Box of whole numbers with fewer values than this is a discrete action, or several
SAME = 1e-4  # real actions that differ by less, relative to the largest, count as the same
NEARLY_ONE = 1.0 - 1e-7  # the largest tanh that is undone: nearer to 1, float32 does not tell numbers apart
ARRAYS = (gym.spaces.Box, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)  # spaces whose elements are arrays


@dataclass(frozen=True, eq=False)
class Actions:
    """The actions of an environment. Either `choices` or `real` is given.

    choices  how many values each discrete factor has
    real     how many dimensions a real action has
    squash   (b, a) [real] each, where the environment gets b + a·tanh(x) of the x that was drawn; None if it gets x
    parts    of a Dict or Tuple: the actions of each part, one after the other in a row
    one_hot  whether a Box gets a 1 in the place of the choice, and 0 elsewhere

    The sampler balances the row as it was drawn. The environment gets `to_env` of it, clipped to the bounds of a Box.
    """

    space: gym.Space[Any]
    choices: tuple[int, ...]
    real: int
    squash: tuple[np.ndarray, np.ndarray] | None = None
    parts: tuple[Actions, ...] = ()
    one_hot: bool = False

    @classmethod
    def of(cls, space: gym.Space[Any]) -> Actions:
        if isinstance(space, gym.spaces.Discrete):
            return cls(space, (int(space.n),), 0)
        if isinstance(space, gym.spaces.MultiDiscrete):
            return cls(space, tuple(int(n) for n in np.ravel(space.nvec)), 0)
        if isinstance(space, gym.spaces.MultiBinary):
            return cls(space, (2,) * int(np.prod(space.shape)), 0)
        if isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
            return cls(space, (), int(np.prod(space.shape)))
        if isinstance(space, gym.spaces.Box) and bool(((space.high - space.low.astype(np.float64)) < MOST_WHOLE).all()):
            return cls(space, tuple(int(n) for n in np.ravel(space.high - space.low.astype(np.int64)) + 1), 0)
        if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple) and (leaves := _leaves(space)):
            parts = tuple(cls.of(leaf) for leaf in leaves)
            choices = tuple(n for part in parts for n in part.choices)
            if all(part.choices for part in parts):
                return cls(space, choices, 0, parts=parts)
            return cls(space, (), sum(part.dim for part in parts), parts=parts)
        raise SpecError(
            f"actions of type {space} are not supported: Discrete, MultiDiscrete, MultiBinary, Box, and Dicts and Tuples of "
            "them are; wrap the environment: gymnasium.wrappers.TransformAction(env, to_its_actions, "
            "gymnasium.spaces.Discrete(n))"
        )

    @property
    def mixed(self) -> bool:
        """Whether some parts are discrete and others real. Then `real` counts the numbers of all of them."""
        return bool(self.real) and any(part.choices for part in self.parts)

    def _joined(self, rows: np.ndarray, convert: Callable[[Actions, np.ndarray], Any]) -> Any:
        """`convert` of every part's columns, in the structure of the space."""
        ends = np.cumsum([part.dim for part in self.parts])
        made = iter(convert(p, rows[..., end - p.dim : end]) for p, end in zip(self.parts, ends, strict=True))
        return _parts(self.space, lambda _: next(made))

    def batch(self, actions: list[Any]) -> Any:
        """Batches of actions, as `to_envs` gives them, as one batch."""
        if not self.parts:
            return np.concatenate(actions)
        return _parts(self.space, lambda _, *x: np.concatenate(x), *actions)

    def split(self, actions: Any) -> list[Any]:
        """The parts of actions that have the structure of the space, in their order."""
        found: list[Any] = []
        _parts(self.space, lambda _, x: found.append(x), actions)
        return found

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
        if self.parts:
            return np.concatenate([part._low for part in self.parts])
        return np.ravel(self.space.low).astype(np.float64)  # type: ignore[attr-defined]

    @functools.cached_property
    def _high(self) -> np.ndarray:
        if self.parts:
            return np.concatenate([part._high for part in self.parts])
        return np.ravel(self.space.high).astype(np.float64)  # type: ignore[attr-defined]

    @functools.cached_property
    def _first(self) -> int | None:
        """The number of the first action of a Discrete space."""
        return int(self.space.start) if isinstance(self.space, gym.spaces.Discrete) else None

    @functools.cached_property
    def _start(self) -> Any:
        """The smallest value of each factor: an array of the space's shape, or one number."""
        if isinstance(self.space, gym.spaces.Box):
            return self.space.low.astype(np.int64)
        return getattr(self.space, "start", 0)

    def squashed(self, bias: np.ndarray, scale: np.ndarray) -> Actions:
        """The same actions, where the environment gets bias + scale·tanh(x) of the x that was drawn."""
        b, a = (np.broadcast_to(np.ravel(x).astype(np.float64), (self.real,)) for x in (bias, scale))
        return dataclasses.replace(self, squash=(b, a))

    def as_one_hot(self) -> Actions:
        """Actions of a Box that are a choice among its numbers."""
        ones = np.eye(self.real, dtype=self.space.dtype).reshape(-1, *self.space.shape)  # type: ignore[misc]
        if not all(self.space.contains(one) for one in ones):
            raise PolicyError(f"the policy gives one-hot actions, which do not lie in {self.space}")
        return dataclasses.replace(self, choices=(self.real,), real=0, one_hot=True)

    def _played(self, rows: np.ndarray) -> np.ndarray:
        """Real actions as they are played: squashed where the policy squashes them, and within the bounds."""
        if self.squash is not None:
            rows = self.squash[0] + self.squash[1] * np.tanh(rows)
        return np.minimum(np.maximum(rows, self._low), self._high)

    def clipped(self, rows: np.ndarray) -> float:
        """The share of the rows that lie outside the bounds of a Box, so that the environment gets something else."""
        return 0.0 if self.choices or self.squash is not None else float(self._beyond(rows).mean())

    def outside(self, played: np.ndarray) -> bool:
        """Whether real actions as they were played lie outside the bounds, by more than rounding."""
        return bool(self._beyond(played, SAME * (1.0 + np.abs(played).max(initial=0.0))).any())

    def _beyond(self, rows: np.ndarray, by: float = 0.0) -> np.ndarray:
        return np.asarray(((rows < self._low - by) | (rows > self._high + by)).any(axis=1))

    def same(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Whether two sets of rows are the same actions: whole numbers are equal, real ones up to rounding."""
        if self.choices:
            return bool((a == b).all())
        return bool(np.abs(a - b).max(initial=0.0) <= SAME * (1.0 + np.abs(b).max(initial=0.0)))

    def to_env(self, row: np.ndarray) -> Any:
        """One action [dim] as the environment wants it."""
        if self.parts:
            return self._joined(row, lambda part, x: part.to_env(x))
        if self._first is not None:
            return int(row[0]) + self._first
        if self.one_hot:
            return self.to_envs(row[None])[0]
        if not self.choices:
            return self._played(row).astype(self.space.dtype).reshape(self.space.shape)
        return (row.astype(np.int64).reshape(self.space.shape) + self._start).astype(self.space.dtype)

    def to_envs(self, rows: np.ndarray) -> Any:
        """Actions [lanes, dim] of a vector environment."""
        if self.parts:
            return self._joined(rows, lambda part, x: part.to_envs(x))
        if not self.choices:
            return self._played(rows).astype(self.space.dtype).reshape(len(rows), *self.space.shape)  # type: ignore[misc]
        whole = rows.astype(np.int64)
        if self.one_hot:
            ones = np.eye(self.choices[0], dtype=self.space.dtype)[whole[:, 0]]
            return ones.reshape(len(rows), *self.space.shape)  # type: ignore[misc]
        if isinstance(self.space, gym.spaces.Discrete):
            return np.asarray(whole[:, 0] + int(self._start))
        whole = whole.reshape(len(rows), *self.space.shape) + self._start  # type: ignore[misc]
        return np.asarray(whole, dtype=self.space.dtype)

    def from_env(self, actions: Any) -> np.ndarray:
        """Recorded actions [N, …] as rows [N, dim]. A squash is undone, within what the numbers can tell."""
        if self.parts:
            several = [part.from_env(x) for part, x in zip(self.parts, self.split(actions), strict=True)]
            return np.concatenate(several, axis=1)
        rows = np.asarray(actions)
        if isinstance(self.space, gym.spaces.Discrete):
            return np.asarray(rows.reshape(-1, 1) - int(self._start), dtype=np.float64)
        if self.one_hot:
            return rows.reshape(len(rows), -1).argmax(axis=1)[:, None].astype(np.float64)
        if self.choices:
            return np.asarray(rows.reshape(len(rows), -1) - np.ravel(self._start), dtype=np.float64)
        real = np.asarray(rows.reshape(len(rows), -1), dtype=np.float64)
        if self.squash is None:
            return real
        return np.asarray(np.arctanh(np.clip((real - self.squash[0]) / self.squash[1], -NEARLY_ONE, NEARLY_ONE)))


def of_noise(size: int) -> Actions:
    """Standard Gaussian noise in place of actions: the policy turns it into what the environment gets."""
    return Actions(gym.spaces.Box(-np.inf, np.inf, (size,), np.float64), (), size)


class MaskSpace(gym.spaces.MultiBinary):
    """Masks of discrete actions, one flag for each value of each factor: which values are allowed."""

    def __init__(self, choices: tuple[int, ...]) -> None:
        super().__init__(sum(choices))
        self.choices = choices


Leaf = Callable[..., Any]  # what is done to each part of a structured observation: (space, parts …) → result


def _parts(space: gym.Space[Any], do: Leaf, *values: Any) -> Any:
    """`do(space, part …)` of every part of values that have the structure of a space, in the same structure."""
    if isinstance(space, gym.spaces.Dict):
        return {key: _parts(part, do, *(_part(value, key) for value in values)) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(_parts(part, do, *(_part(value, i) for value in values)) for i, part in enumerate(space.spaces))
    return do(space, *values)


def _part(value: Any, key: Any) -> Any:
    try:
        return value[key]
    except (KeyError, IndexError, TypeError, ValueError):
        raise SpecError(f"the observation has no part {key!r}: it is {type(value).__name__} {value!r:.60}") from None


def _numbers(leaf: gym.Space[Any]) -> int:
    return math.prod(leaf.shape or ())


def _leaves(space: gym.Space[Any]) -> list[gym.Space[Any]]:
    found: list[gym.Space[Any]] = []
    _parts(space, lambda leaf: found.append(leaf))
    return found


@dataclass(frozen=True, eq=False)
class Observations:
    """The observations of an environment: numbered states, arrays of a fixed shape, or Dicts and Tuples of these.

    A batch of Dicts is a Dict of batches, as vector environments give it. Policies get their observations as they are;
    they are stored as rows of numbers, one part after the other.
    """

    space: gym.Space[Any]
    n_states: int | None
    shape: tuple[int, ...]
    start: int = 0

    @classmethod
    def of(cls, space: gym.Space[Any]) -> Observations:
        if isinstance(space, gym.spaces.Discrete):
            return cls(space, int(space.n), (), int(space.start))
        if isinstance(space, ARRAYS):
            return cls(space, None, tuple(int(n) for n in space.shape))
        leaves = _leaves(space)
        strange = [leaf for leaf in leaves if not isinstance(leaf, (gym.spaces.Discrete, *ARRAYS))]
        if strange or not leaves:
            what = type(strange[0]).__name__ if strange else "nothing"
            raise SpecError(
                f"observations of type {type(space).__name__} with {what} in it are not arrays of a fixed size; wrap the "
                "environment: gymnasium.wrappers.TransformObservation(env, to_array, gymnasium.spaces.Box(low, high, shape))"
            )
        return cls(space, None, (sum(_numbers(leaf) for leaf in leaves),))

    @functools.cached_property
    def structured(self) -> bool:
        """Whether an observation is a Dict or a Tuple."""
        return isinstance(self.space, gym.spaces.Dict | gym.spaces.Tuple)

    @functools.cached_property
    def size(self) -> int:
        return 1 if self.n_states is not None else int(np.prod(self.shape))

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.space.dtype or np.float64)

    def batch(self, observation: Any) -> Any:
        """One observation as a batch of one."""
        if not self.structured:
            return border.numbers("the observation", observation)[None]
        return _parts(self.space, lambda _, x: border.numbers("a part of the observation", x)[None], observation)

    def fitted(self, batch: Any, lanes: int) -> Any:
        """A batch of Dicts or Tuples, if it has for each lane a part of every kind, with as many numbers as that has."""

        def one(leaf: gym.Space[Any], x: Any) -> np.ndarray:
            part = border.numbers("a part of the observations", x)
            if part.shape[:1] != (lanes,) or part.size != lanes * _numbers(leaf):
                shape = list(part.shape)
                raise SpecError(f"a part of the observations has shape {shape}, which does not fit {lanes} of {leaf}")
            return part.reshape(lanes, *(leaf.shape or ()))

        return _parts(self.space, one, batch)

    def take(self, batch: Any, which: Any) -> Any:
        """Those observations of a batch that an index, a slice or a list of indices names."""
        if not self.structured:
            return np.asarray(batch)[which]
        return _parts(self.space, lambda _, x: np.asarray(x)[which], batch)

    def each(self, batch: Any) -> list[Any]:
        """The observations of a batch, one by one."""
        if not self.structured:
            return list(batch)
        return [self.take(batch, i) for i in range(len(self.rows(batch)))]

    def rows(self, observations: Any) -> np.ndarray:
        """A batch [lanes, …] as float64 rows [lanes, size]. Numbered states count from 0."""
        if self.structured:
            parts: list[np.ndarray] = []

            def add(leaf: gym.Space[Any], x: Any) -> None:
                part, n = border.numbers("a part of the observations", x), _numbers(leaf)
                rows = len(part) if part.ndim else 0
                if part.size != rows * n or (parts and rows != len(parts[0])):
                    raise SpecError(f"a part of the observations has shape {list(part.shape)}, which does not fit {leaf}")
                parts.append(part.reshape(rows, n).astype(np.float64))

            _parts(self.space, add, observations)
            return np.concatenate(parts, axis=1)
        given = border.numbers("the observations", observations)
        if given.ndim == 0 or given.size != len(given) * self.size:
            raise SpecError(f"an observation has {self.size} numbers; those given have shape {list(given.shape)}")
        rows = given.reshape(len(given), self.size).astype(np.float64)
        if self.n_states is not None:
            rows = border.places("a state number was observed", rows - self.start, (self.n_states,))
        return np.ascontiguousarray(rows)

    def shaped(self, rows: np.ndarray) -> Any:
        """Rows [n, size] as a batch of observations again."""
        if not self.structured:
            return (rows + self.start).reshape(len(rows), *self.shape).astype(self.dtype)
        at = 0

        def cut(leaf: gym.Space[Any]) -> np.ndarray:
            nonlocal at
            at += (n := _numbers(leaf))
            return rows[:, at - n : at].reshape(len(rows), *leaf.shape).astype(leaf.dtype)  # type: ignore[misc]

        return _parts(self.space, cut)

    def probes(self, n: int = 48) -> Any:
        """n observations [n, …] to try a network on. They lie within the bounds; without bounds they get ever larger."""
        rng = np.random.default_rng(0)
        return _parts(self.space, lambda leaf: _probes(leaf, n, rng))


def _probes(space: gym.Space[Any], n: int, rng: np.random.Generator) -> np.ndarray:
    if isinstance(space, gym.spaces.Discrete):
        return np.asarray(int(space.start) + rng.integers(int(space.n), size=n))
    if isinstance(space, gym.spaces.MultiDiscrete):
        return (space.start + np.floor(rng.random((n, *space.shape)) * space.nvec)).astype(space.dtype)
    if not isinstance(space, gym.spaces.Box):
        flags = rng.integers(2, size=(n, *space.shape)).astype(space.dtype)  # type: ignore[misc]
        if isinstance(space, MaskSpace):  # something is always allowed
            for end, width in zip(np.cumsum(space.choices), space.choices, strict=True):
                flags[np.arange(n), end - 1 - rng.integers(width, size=n)] = 1
        return flags
    low, high = (np.broadcast_to(x, space.shape).astype(np.float64) for x in (space.low, space.high))
    bounded = np.isfinite(low) & np.isfinite(high) & (high - low < 1e6)
    scale = np.repeat([0.1, 1.0, 10.0], -(-n // 3))[:n].reshape(n, *[1] * len(space.shape))
    wide = np.clip(rng.standard_normal((n, *space.shape)) * scale, low, high)
    even = np.where(bounded, low, 0.0) + rng.random((n, *space.shape)) * np.where(bounded, high - low, 1.0)
    return np.asarray(np.where(bounded, even, wide)).astype(space.dtype)


def check_fit(what: str, obs_dim: int, observations: Observations) -> None:
    if obs_dim != observations.size:
        raise PolicyError(f"{what} takes observations of {obs_dim} numbers, the environment's have {observations.size}")
