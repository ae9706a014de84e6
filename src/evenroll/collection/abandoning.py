"""A recorder that can drop an episode which does not end: the power was cut, an operator stepped in, Ctrl-C came."""

from __future__ import annotations

import numpy as np

from evenroll.collection.recorded import HALF_ACT, HALF_OBSERVE
from evenroll.collection.recorder import Recorder
from evenroll.errors import SpecError
from evenroll.text.specs import whole_number


class AbandoningRecorder(Recorder):
    """A recorder with `open_episodes`, `abandon` and `go_on`."""

    @property
    def open_episodes(self) -> int:
        """How many episodes have begun and not ended: 0 or 1, or with several lanes up to their number."""
        return len(self._open(None))

    def abandon(self, lane: int | None = None) -> int:
        """Drop the open episode, its steps and its part of the balance. Returns how many steps were dropped.

        Of several lanes all open episodes are dropped, or that of one lane. What other lanes did stays: their actions
        were chosen in the knowledge of the dropped ones, and that cannot be undone; but from now on the balance counts the
        steps that are kept and no others, so that the data as a whole becomes on-policy. The sampler learns them again in
        their order, which takes as long as learning them did. The random numbers are not taken back: an episode that
        failed is not met with the same luck again.
        """
        if lane is not None and whole_number("lane", lane, 0) >= self.lanes:
            raise SpecError(f"there is no lane {lane}: they are 0 … {self.lanes - 1}")
        dropped = self._open(None if self._blocked == HALF_OBSERVE else lane)
        if not dropped and not self._half:
            self._blocked = ""
            return 0
        return self._drop(dropped)

    def go_on(self) -> None:
        """The environment is still in its open episode: after `resume`, or after an interrupt within `act`."""
        if self._blocked == HALF_OBSERVE:
            raise SpecError(self._blocked)
        if self._blocked == HALF_ACT:
            self._drop({})
        self._blocked = ""

    @property
    def _half(self) -> bool:
        """Whether an interrupt left a step half recorded."""
        return self._blocked in (HALF_ACT, HALF_OBSERVE)

    def _open(self, lane: int | None) -> dict[int, int]:
        """The open episodes, by their lane."""
        over = {episode for episode, _, _ in self._ended}
        going = {e: episode for e, episode in enumerate(self._episode) if episode >= 0 and episode not in over}
        return going if lane is None else {e: episode for e, episode in going.items() if e == lane}

    def _drop(self, dropped: dict[int, int]) -> int:
        """Drop these episodes, and what an interrupt left half recorded. Returns how many steps were dropped."""
        if self.ros is not None and "observations" not in self.columns.arrays:
            raise SpecError("ros must see the observations again: make the collector with keep_observations=True")
        half, c = self._half, self.columns
        self._blocked = HALF_OBSERVE  # should this be interrupted, too
        keep = ~np.isin(c["episode"][:, 0], list(dropped.values()))
        if half:
            keep[self._complete :] = False
        complete = int(np.count_nonzero(keep[: self._complete]))
        gone = self._complete - complete
        c.replace({name: c[name][keep] for name in c.arrays})
        self._complete = self._row = complete
        self._pending = [] if half else [lane for lane in self._pending if lane not in dropped]
        over, going = {e for e, _, _ in self._ended}, set(c["episode"][:, 0].tolist())
        for lane, episode in enumerate(self._episode):
            if episode in over or episode not in going:
                self._episode[lane], self._length[lane] = -1, 0
        self._begun = max([-1, *over, *going]) + 1
        self._learn_again(over)
        self._blocked = ""
        return gone

    def _learn_again(self, over: set[int]) -> None:
        """Give the sampler the memory that it would have, had it met only the steps that are kept."""
        c, stepper = self.columns, self.stepper
        if stepper is None:
            return
        episode, actions = c["episode"][:, 0], np.ascontiguousarray(c["actions"])
        if self.ros is not None:
            self.ros.S.zero_()
            self.ros.k = 0
            if self.initial is not None:
                self._ros_learns(self.initial.column("observations"), self.initial.column("actions"))
            self._ros_learns(c["observations"], actions)
            stepper.balance.clock.steps, stepper.balance.clock.episodes = len(episode), len(over)
            return
        encoded = np.ascontiguousarray(c["encoded" if "encoded" in c.arrays else "observations"], dtype=np.float64)
        last = np.zeros(len(episode), dtype=np.int64)
        last[len(episode) - 1 - np.unique(episode[::-1], return_index=True)[1]] = 1  # the last row of every episode …
        last[~np.isin(episode, list(over))] = 0  # … that has ended
        if self.lanes == 1:
            owner, of_lane = np.zeros(len(episode), dtype=np.int64), [0]
        else:
            names, owner = np.unique(episode, return_inverse=True)
            place = {int(e): i for i, e in enumerate(names)}
            owner, of_lane = owner.astype(np.int64), [place.get(e, -1) for e in self._episode]
        stepper.replay(owner, last, encoded, actions, c["log_e"][:, 0].copy(), c["log_b"][:, 0].copy(), of_lane)
