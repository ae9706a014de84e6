"""What the recorder is given, as a batch of the right shape, and what it has recorded, as rollouts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evenroll.adapters.model import Model
from evenroll.adapters.spaces import Observations
from evenroll.collection.columns import Columns
from evenroll.collection.rollouts import Rollouts
from evenroll.engine import border
from evenroll.errors import SpecError

TWICE = (
    "act was called twice without observe in between: tell what came of the last action with observe(…), or, if that is "
    "not known (an interrupt?), call abandon(), which drops the open episode, and begin a new one"
)
HALF_ACT = "act was interrupted: call go_on() and act(…) again; or abandon(), which drops the open episode, and begin anew"
HALF_OBSERVE = "observe was interrupted: call abandon(), which drops the open episode, and begin a new one"


def batch_of(observations: Observations, observation: Any, lanes: int, batched: bool) -> Any:
    """The observation of every lane, [lanes, …]: as many as there are lanes, each of the environment's shape."""
    if observations.structured:
        return observation if batched else observations.batch(observation)
    if not batched:
        observation = border.numbers("the observation", observation)[None]
    shape = observation.shape if hasattr(observation, "shape") else border.numbers("the observations", observation).shape
    expected = (lanes, *observations.shape)
    if shape != expected and (len(shape) == 0 or shape[0] != lanes or math.prod(shape) != math.prod(expected)):
        given = list(shape) if batched else list(shape[1:])
        wanted = list(expected) if batched else list(expected[1:])
        raise SpecError(f"the observation must have shape {wanted}, not {given}")
    return observation


def of_lane(model: Model, batch: Any, lane: int) -> Any:
    """A lane's own observation. A batch is a list where only some lanes have one."""
    listed = isinstance(batch, list) or (isinstance(batch, np.ndarray) and batch.dtype == object)
    if listed or model.masked:  # a masked policy observes more than the environment gives
        return {k: x[lane] for k, x in batch.items()} if isinstance(batch, dict) else batch[lane]
    return model.observations.take(batch, lane)


def assembled(
    columns: Columns,
    complete: int,
    begun: int,
    ended: list[tuple[int, bool, float]],
    going: int,
    *,
    gamma: float,
    horizon: int | None,
    width: int,
) -> Rollouts:
    """All finished trajectories in the order of their ends, and the one that is `going` (−1: none) last.

    complete  rows whose reward is known; later ones are left out
    begun     how many episodes have begun
    ended     number, terminated and success of every finished episode; see `Recorder`
    width     how many features a network that runs elsewhere has handed in
    """
    c, n = columns, len(ended)
    rank = np.full(begun + 1, -1, dtype=np.int64)
    rank[[e for e, _, _ in ended]] = np.arange(n)
    if going >= 0:
        rank[going] = n
    ranks = rank[c["episode"][:complete, 0]]
    rows = np.flatnonzero(ranks >= 0)
    rows = rows[np.argsort(ranks[rows], kind="stable")]
    lengths = np.bincount(ranks[rows], minlength=n + 1)
    start = np.repeat(np.cumsum(lengths) - lengths, lengths)
    rewards = c["rewards"][rows, 0]
    discount = gamma ** (np.arange(len(rows)) - start).astype(np.float64)
    log_e, log_b = c["log_e"][rows, 0], c["log_b"][rows, 0]
    success = np.array([flag for _, _, flag in ended])
    features = outputs = None
    if "encoded" in c.arrays:
        encoded = c["encoded"][rows]
        features = np.append(encoded[:, :width], np.ones((len(rows), 1), dtype=np.float32), axis=1)
        outputs = encoded[:, width:]
    return Rollouts(
        gamma,
        len(rows),
        np.bincount(ranks[rows], discount * rewards, minlength=n + 1)[:n],
        np.cumsum(lengths[:n]),
        np.array([terminated for _, terminated, _ in ended], dtype=bool),
        np.bincount(ranks[rows], log_e - log_b, minlength=n + 1)[:n],
        c["observations"][rows] if "observations" in c.arrays else None,
        c["actions"][rows],
        rewards,
        log_e,
        log_b,
        horizon=horizon,
        features=features,
        outputs=outputs,
        success=success if np.isfinite(success).all() and n else None,
    )
