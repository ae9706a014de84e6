"""The data: trajectories as columns. Initial data, if any, comes first. Only the last trajectory may be unfinished."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.engine import border
from evenroll.errors import DataError, SpecError
from evenroll.text.specs import whole_number

STEP_COLUMNS = ("observations", "actions", "rewards", "log_e", "log_b", "features", "outputs")


def _cut(column: np.ndarray | None, part: slice) -> Any:
    return None if column is None else column[part]


@dataclass(frozen=True)
class Rollouts:
    """n finished trajectories (and perhaps an unfinished one), N steps in all. A column that is None was not recorded.

    returns       [n] discounted return g(H)
    ends          [n] number of steps up to and including each trajectory
    terminated    [n] whether the environment ended the trajectory; else the horizon did (truncated)
    log_weights   [n] Σ log π_e − log π_b over the trajectory
    observations  [N, obs], and beside them actions [N, dim], rewards [N], log_e [N], log_b [N]
    initial_episodes, initial_steps  how much of the data is initial data D₁
    horizon       steps after which a trajectory is truncated, or None if there is no such limit or it is not known
    features      [N, F] the policy's last hidden activations and a constant 1, where someone has already computed them
    outputs       [N, n] the policy's outputs, where its network runs elsewhere (policies.External)
    success       [n] whether each trajectory succeeded, where the environment says so
    log_fit       [N] log π̂ of every step, where someone has already fitted π̂; it belongs to exactly these steps, and a
                  part of the data would have another fit
    q_fit         (Q̂, V̂) of every step of finished trajectories, where someone has already fitted them
    starts        how many starts the collection of this data has used: more than `episodes` where some were taken out. New
                  data is collected from others. It is 0 where it is not known.
    resets        [M, obs] what further resets of the environment began with. No step was taken from them; they show which
                  starts there are (estimators/start_part.py).
    critic        ([n], [M]) the values that the policy's own critic gives to the trajectories' starts and to the resets
    """

    gamma: float
    steps: int
    returns: np.ndarray
    ends: np.ndarray
    terminated: np.ndarray
    log_weights: np.ndarray | None = None
    observations: np.ndarray | None = None
    actions: np.ndarray | None = None
    rewards: np.ndarray | None = None
    log_e: np.ndarray | None = None
    log_b: np.ndarray | None = None
    initial_episodes: int = 0
    initial_steps: int = 0
    horizon: int | None = None
    features: np.ndarray | None = None
    outputs: np.ndarray | None = None
    success: np.ndarray | None = None
    log_fit: np.ndarray | None = None
    q_fit: tuple[np.ndarray, np.ndarray] | None = None
    starts: int = 0
    resets: np.ndarray | None = None
    critic: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def episodes(self) -> int:
        """The number of finished trajectories."""
        return len(self.returns)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.ends, prepend=0)

    @property
    def all_lengths(self) -> np.ndarray:
        """The lengths of all trajectories, that of an unfinished one last."""
        rest = self.steps - (int(self.ends[-1]) if self.episodes else 0)
        return np.append(self.lengths, rest) if rest else self.lengths

    @property
    def truncated(self) -> int:
        return int(self.episodes - self.terminated.sum())

    @property
    def unfinished(self) -> int:
        """How many trajectories have begun and not ended: 0 or 1."""
        return int(self.steps > (self.ends[-1] if self.episodes else 0))

    def sound(self) -> Rollouts:
        """The same data in the types and shapes that all that comes after relies on, or a `DataError`.

        Whoever takes data from outside begins with this. Rewards may be of any precision, or whole numbers.
        """
        try:
            steps = whole_number("the number of steps", self.steps, 0)
        except SpecError as error:
            raise DataError(str(error)) from None
        ends = border.ends("the ends of the data", self.ends, steps, DataError)
        columns: dict[str, Any] = {"steps": steps, "ends": ends}
        for name in ("returns", "log_weights", "success", "rewards", "log_e", "log_b"):
            value = getattr(self, name)
            if value is not None or name == "returns":
                rows = steps if name in STEP_COLUMNS else len(ends)
                array = border.numbers(name, value, DataError)
                if array.shape != (rows,):
                    raise DataError(f"{name} has shape {list(array.shape)}, which does not fit {rows} rows")
                columns[name] = np.require(array, np.float64, ["C", "E"])
        columns["terminated"] = border.flags("terminated", self.terminated, len(ends), DataError).astype(bool)
        for name in ("observations", "actions", "features", "outputs"):
            value = getattr(self, name)
            if value is not None:
                columns[name] = border.numbers(name, value, DataError).view(np.ndarray)
                if columns[name].dtype.kind == "b":  # NumPy does not subtract truth values
                    columns[name] = columns[name].astype(np.float64)
                if columns[name].ndim != 2 or len(columns[name]) != steps:
                    shape = list(columns[name].shape)
                    raise DataError(f"{name} has shape {shape}, which does not fit {steps} rows of numbers")
        return dataclasses.replace(self, **columns)

    def prefix(self, new_steps: int) -> Rollouts:
        """All initial data and the first `new_steps` steps after it."""
        total = self.initial_steps + new_steps
        if total > self.steps:
            raise DataError(f"{new_steps} new steps were asked for, {self.steps - self.initial_steps} were collected")
        n = int(np.searchsorted(self.ends, total, side="right"))
        return dataclasses.replace(
            self,
            steps=total,
            returns=self.returns[:n],
            ends=self.ends[:n],
            terminated=self.terminated[:n],
            log_weights=_cut(self.log_weights, slice(n)),
            success=_cut(self.success, slice(n)),
            log_fit=None,
            q_fit=None,
            critic=None if self.critic is None else (self.critic[0][:n], self.critic[1]),
            **{name: _cut(getattr(self, name), slice(total)) for name in STEP_COLUMNS},
        )

    def finished(self) -> Rollouts:
        """The data without the trajectory that has begun and not ended."""
        return self.prefix(int(self.ends[-1]) - self.initial_steps if self.episodes > self.initial_episodes else 0)

    def split_initial(self) -> tuple[Rollouts, Rollouts]:
        """(initial data, data collected after it)."""
        n, m = self.initial_episodes, self.initial_steps

        def part(episodes: slice, steps: slice, start: int, count: int) -> Rollouts:
            return Rollouts(
                self.gamma,
                count,
                self.returns[episodes],
                self.ends[episodes] - start,
                self.terminated[episodes],
                _cut(self.log_weights, episodes),
                horizon=self.horizon,
                success=_cut(self.success, episodes),
                **{name: _cut(getattr(self, name), steps) for name in STEP_COLUMNS},
            )

        return part(slice(n), slice(m), 0, m), part(slice(n, None), slice(m, None), m, self.steps - m)

    def after(self, initial: Rollouts) -> Rollouts:
        """This data preceded by `initial`, which must end with a finished trajectory."""
        if initial.unfinished:
            raise DataError("initial data must consist of finished trajectories")

        def join(name: str) -> Any:
            before, after = getattr(initial, name), getattr(self, name)
            return None if before is None or after is None else np.concatenate([before, after])

        return Rollouts(
            self.gamma,
            initial.steps + self.steps,
            np.concatenate([initial.returns, self.returns]),
            np.concatenate([initial.ends, self.ends + initial.steps]),
            np.concatenate([initial.terminated, self.terminated]),
            **{name: join(name) for name in ("log_weights", "success", *STEP_COLUMNS)},
            initial_episodes=initial.episodes,
            initial_steps=initial.steps,
            horizon=self.horizon,
        )

    def continued(self, more: Rollouts) -> Rollouts:
        """This data, followed by what the same trial collected next.

        The `ends` of `more` count from the trial's first new step.
        """
        new = more.split_initial()[1]
        new = dataclasses.replace(new, ends=new.ends + self.initial_steps)

        def join(name: str) -> Any:
            before, after = getattr(self, name), getattr(new, name)
            return None if before is None or after is None else np.concatenate([before, after])

        columns = ("returns", "ends", "terminated", "log_weights", *STEP_COLUMNS)
        return dataclasses.replace(self, steps=more.steps, **{name: join(name) for name in columns})

    def start_observations(self) -> np.ndarray:
        """What each finished trajectory began with, [n, obs]."""
        return self.column("observations")[self.ends - self.lengths]

    def column(self, name: str) -> np.ndarray:
        """A column that must have been recorded."""
        value = getattr(self, name)
        if value is None:
            raise DataError(f"these rollouts were collected without {name}")
        return np.asarray(value)
