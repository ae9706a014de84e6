"""What a policy remembers during an episode, for each lane: step(observations, state) → result, state.

The state of a lane is forgotten when an episode of the lane begins: then the policy gets None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from evenroll.adapters.spaces import Observations
from evenroll.errors import PolicyError
from evenroll.text.numbers import first_line

Step = Callable[[Any, Any], tuple[Any, Any]]


class LaneMemory:
    """The states of all lanes, as tensors that have the lanes along one of their dimensions.

    step   (batch of observations, state or None) → (result, state), where a state is a tensor, or a tuple of states
    """

    def __init__(self, step: Step, observations: Observations) -> None:
        self.step, self.observations = step, observations
        self.now: Any = None  # the state that the next call starts from
        self.after: Any = None  # the state that the last call ended with
        self.encode_batch: Callable[[Any], np.ndarray] | None = None
        self.fresh = np.zeros(0, dtype=np.int64)  # 1 for each lane that has no state yet
        self.parts: list[torch.Tensor] = []
        self.dims, self.like = self._shapes()

    def _shapes(self) -> tuple[list[int], Any]:
        """Along which dimension of each part of the state the lanes lie, and a state of no lanes."""
        found = []
        for n in (5, 7):
            try:
                with torch.inference_mode():
                    found.append(self.step(self.observations.probes(n), None)[1])
            except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError) as error:
                raise PolicyError(
                    f"the policy's step(observations, None) fails on {n} observations: {first_line(error)}; it must take a "
                    "batch, and None at the start of an episode, and give (distribution or logits, state)"
                ) from error
        few, more = (_leaves(state) for state in found)
        dims = [
            [d for d, (a, b) in enumerate(zip(x.shape, y.shape, strict=True)) if a != b]
            for x, y in zip(few, more, strict=True)
        ]
        if not few or any(len(d) != 1 for d in dims):
            raise PolicyError("the policy's state does not have one row for each observation, or there is none")
        return [d[0] for d in dims], found[0]

    def call(self, batch: Any) -> Any:
        result, self.after = self.step(batch, self.now)
        return result

    def begin(self, lane: int, lanes: int) -> None:
        """The episode of a lane begins: forget."""
        if len(self.fresh) != lanes:
            self.fresh = np.ones(lanes, dtype=np.int64)
            self.parts = [self._empty(x, d, lanes) for x, d in zip(_leaves(self.like), self.dims, strict=True)]
        self.fresh[lane] = 1

    @staticmethod
    def _empty(like: torch.Tensor, dim: int, lanes: int) -> torch.Tensor:
        return torch.zeros([lanes if d == dim else n for d, n in enumerate(like.shape)], dtype=like.dtype)

    def encode(self, batch: Any) -> np.ndarray:
        """The features and outputs [lanes, …] of the next step of every lane."""
        assert self.encode_batch is not None
        n = len(self.observations.rows(batch))
        if n != len(self.fresh):  # not the lanes: what the policy does at the start of an episode
            self.now = None
            return self.encode_batch(batch)
        result: np.ndarray | None = None
        for new in (1, 0):
            group = np.flatnonzero(self.fresh == new)
            if len(group) == 0:
                continue
            index = torch.as_tensor(group)
            kept = [x.index_select(d, index) for x, d in zip(self.parts, self.dims, strict=True)]
            self.now = None if new else _rebuilt(self.like, iter(kept))
            rows = self.encode_batch(batch if len(group) == n else self.observations.take(batch, group))
            result = np.zeros((n, rows.shape[1])) if result is None else result
            result[group] = rows
            after = _leaves(self.after)
            shapes = [[(list(x.shape), x.dtype) for x in leaves] for leaves in (after, kept)]
            if shapes[0] != shapes[1]:
                raise PolicyError(f"the policy's state has shapes and types {shapes[0]}, not {shapes[1]} as at first")
            for x, d, y in zip(self.parts, self.dims, after, strict=True):
                x.index_copy_(d, index, y.detach().clone())
        self.fresh[:] = 0
        self.now = None
        assert result is not None
        return result

    def encode_episodes(self, rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The features and outputs [N, …] at observations [N, size] of whole episodes, one after the other."""
        before, self.fresh = (self.fresh, self.parts), np.zeros(0, dtype=np.int64)
        self.begin(0, len(lengths))
        starts, result = np.cumsum(lengths) - lengths, None
        for t in range(int(lengths.max(initial=0))):
            encoded = self.encode(self.observations.shaped(rows[starts + np.minimum(t, lengths - 1)]))
            result = np.zeros((len(rows), encoded.shape[1])) if result is None else result
            going = lengths > t
            result[starts[going] + t] = encoded[going]
        self.fresh, self.parts = before
        return np.zeros((0, 0)) if result is None else result

    def state(self, lanes: int) -> dict[str, np.ndarray]:
        """What is remembered, as arrays that can be saved, or overwritten to go on from."""
        if len(self.fresh) != lanes:
            self.begin(0, lanes)
        return {"fresh": self.fresh, **{f"part{i}": x.numpy() for i, x in enumerate(self.parts)}}


def _leaves(state: Any) -> list[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return [state]
    if isinstance(state, tuple | list):
        return [leaf for part in state for leaf in _leaves(part)]
    raise PolicyError(f"the policy's state is a {type(state).__name__}, not a tensor or a tuple of tensors")


def _rebuilt(like: Any, leaves: Any) -> Any:
    return next(leaves) if isinstance(like, torch.Tensor) else tuple(_rebuilt(part, leaves) for part in like)
