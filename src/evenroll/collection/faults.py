"""What can go wrong while a recorder is at work: errors that say where it happened, and keep what was finished."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from evenroll.adapters.model import Model
from evenroll.collection.lanes import BAD_OBSERVATION
from evenroll.collection.rollouts import Rollouts
from evenroll.engine import border
from evenroll.errors import EnvironmentFault, EvenrollError, PolicyFault
from evenroll.text.numbers import first_line


class Faults:
    """The part of a recorder that looks at what an environment and a policy hand in. `Recorder` describes the fields."""

    model: Model
    seed: int
    lanes: int
    batched: bool
    horizon: int | None
    longest: int
    _begun: int
    _blocked: str
    _episode: list[int]
    _length: list[int]

    def rollouts(self, unfinished: bool = True) -> Rollouts:
        raise TypeError("a recorder knows its data")

    def _asked(self, policy: Callable[[Any], Any], batch: Any) -> Any:
        """What a policy that runs elsewhere answers."""
        try:
            return policy(batch)
        except EvenrollError:
            raise
        except Exception as error:
            bad = np.flatnonzero(~np.isfinite(self.model.observations.rows(batch)).all(axis=1))
            if len(bad):
                self._bad_step(2 * int(bad[0]) + BAD_OBSERVATION, batch)
            self._bad(PolicyFault, f"the policy fails: {type(error).__name__}: {first_line(error)}", 0)

    def _of_lanes(self, what: str, x: Any) -> np.ndarray:
        """One number for each lane."""
        array = border.numbers(f"the environment's {what}", x, EnvironmentFault)
        if array.shape != (self.lanes,):
            shape = list(array.shape)
            self._bad(EnvironmentFault, f"the environment gave {what} of shape {shape} for {self.lanes} lanes", 0)
        return array.astype(np.float64)

    def _flags(self, what: str, x: Any) -> np.ndarray:
        flags = self._of_lanes(f"flags `{what}`", x)
        if not ((flags == 0.0) | (flags == 1.0)).all():
            self._bad(EnvironmentFault, f"the environment's flags `{what}` must be true or false", 0)
        return flags

    def _too_long(self, lane: int) -> bool:
        if self.horizon is None:
            remedy = (
                "wrap each environment in gymnasium.wrappers.TimeLimit" if self.batched else "give horizon=… (--horizon)"
            )
            text = f"the episode has not ended after {self.longest:,} steps, and may never end; {remedy} to cut it"
            self._bad(EnvironmentFault, text, lane)
        return True

    def _bad_step(self, status: int, batch: Any) -> None:
        lane = status // 2
        if status % 2 == BAD_OBSERVATION:
            seen = self.model.observations.rows(batch)[lane]
            if not np.isfinite(seen).all():
                self._bad(EnvironmentFault, f"the observation is not finite ({seen})", lane)
            if self.model.observations.n_states is not None:
                self._bad(EnvironmentFault, f"the observation {seen} is not the number of a state", lane)
            self._bad(PolicyFault, f"the policy's output is not finite for observation {seen}", lane)
        self._bad(PolicyFault, "the policy gives the action it took probability 0", lane)

    def _bad(self, kind: type[EnvironmentFault] | type[PolicyFault], text: str, lane: int) -> NoReturn:
        self._blocked = ""
        going = self._episode[lane] >= 0
        episode, step = (self._episode[lane], self._length[lane]) if going else (self._begun, 0)
        place = f"episode {episode}, step {step}, seed {self.seed}" + (f", lane {lane}" if self.batched else "")
        kept = self.rollouts(unfinished=False)
        note = f"; {kept.episodes} finished episodes are kept (error.rollouts)" if kept.episodes else ""
        raise kind(f"{text}: {place}{note}", episode=episode, step=step, seed=self.seed, rollouts=kept)
