"""Data as people have it: rollouts, a file of them, a data frame (pandas, polars, Arrow, Hugging Face), a dictionary of
columns, or a Minari dataset.

None of these libraries is imported. What has the right columns is read, column by column:

    episode, observation, action, reward       needed; an observation or action is a number or a list of numbers, or is
                                               spread over columns observation.0, observation.1, …
    t, terminated, truncated, log_e, log_b, success   used where they are there
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.adapters.spaces import Actions, Observations
from evenroll.collection.assembling import assemble, with_gamma
from evenroll.collection.rollout_files import load_rollouts
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.table_columns import COLUMNS, from_columns
from evenroll.errors import DataError, SpecError
from evenroll.text.numbers import first_line

SEVERAL = "it has several parts: give one of them, such as data[{first!r}]"


def as_rollouts(given: Any, gamma: float | None = None) -> Rollouts:
    """The given data as rollouts, with returns of this discount; without one, of the data's own, or 1."""
    if isinstance(given, str | Path):
        return load_rollouts(given, gamma)
    data = given.sound() if isinstance(given, Rollouts) else _of_object(given)
    return data if gamma is None or gamma == data.gamma else with_gamma(data, gamma)


def _of_object(given: Any) -> Rollouts:
    kind = type(given).__name__
    given = given.collect() if kind == "LazyFrame" else given  # polars' frame that is not there yet
    try:
        if hasattr(given, "iterate_episodes"):
            return _of_minari(given)
        names = _names(given)
        if names is None:
            raise DataError(
                "this is no data: give rollouts, a file of them, a data frame with the columns episode, observation, action "
                "and reward, or a MinariDataset"
            )
        wanted = [name for name in names if name in COLUMNS or re.fullmatch(r"(observation|action)\.\d+", name)]
        return from_columns({name: _column(given, name) for name in wanted})
    except (DataError, SpecError) as error:
        raise DataError(f"{kind}: {error}") from None
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        raise DataError(f"{kind}: its columns do not fit ({first_line(error)})") from None


def _names(given: Any) -> list[str] | None:
    if isinstance(given, Mapping):
        if any(hasattr(part, "column_names") for part in given.values()):
            raise DataError(SEVERAL.format(first=next(iter(given))))
        return [str(name) for name in given]
    names = getattr(given, "column_names", None)  # Arrow's and Hugging Face's
    if names is None:
        names = getattr(given, "columns", None)
    if names is None or isinstance(names, Callable):  # type: ignore[arg-type]
        return None
    if isinstance(names, Mapping):
        raise DataError(SEVERAL.format(first=next(iter(names), "train")))
    return [str(name) for name in names]


def _column(given: Any, name: str) -> np.ndarray:
    """A column as numbers [rows] or [rows, n]."""
    column = given[name]
    values = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else list(column))
    if values.dtype == object:  # lists, arrays, or numbers of which some are missing
        if any(value is None for value in values):
            raise DataError(f"column {name} lacks a number")
        values = np.array([np.asarray(value) for value in values])  # raises if lists differ in length
    if values.dtype.kind not in "fiub":
        raise DataError(f"column {name} does not hold numbers, but {values.dtype}")
    return values


def _of_minari(dataset: Any) -> Rollouts:
    """A MinariDataset, read by Minari itself. Whoever has opened it trusts it."""
    observations, actions = Observations.of(dataset.observation_space), Actions.of(dataset.action_space)
    episodes = list(dataset.iterate_episodes())
    if not episodes:
        raise DataError("no episodes in it")

    def joined(part: Callable[[Any], Any]) -> np.ndarray:
        return np.concatenate([np.asarray(part(episode)) for episode in episodes])

    number = np.repeat(np.arange(len(episodes)), [len(episode.rewards) for episode in episodes])
    return assemble(
        1.0, None, number, joined(lambda e: observations.rows(e.observations[:-1])),
        joined(lambda e: actions.from_env(e.actions)), joined(lambda e: np.asarray(e.rewards, np.float64)),
        joined(lambda e: np.asarray(e.terminations, bool)), joined(lambda e: np.asarray(e.truncations, bool)),
        None, None, None,
    )  # fmt: skip
