"""What the recorder is given, as a batch of the right shape, and what it has recorded, as rollouts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenroll.adapters.masks import ENTRY as MASK
from evenroll.adapters.masks import joined
from evenroll.adapters.model import Model
from evenroll.collection.columns import Columns
from evenroll.collection.rollouts import Rollouts
from evenroll.engine import border
from evenroll.errors import SpecError
from evenroll.policies import External

KEPT = 4096  # observations of up to this many bytes are kept unless the caller says otherwise: 400 MB of 100,000 steps
SMALL = 256  # observations of up to this many numbers are kept in double precision whatever their type is
SUCCESS = ("is_success", "success")  # names under which environments report a success in `info`
TWICE = (
    "act was called twice without observe in between: tell what came of the last action with observe(…), or, if that is "
    "not known (an interrupt?), call abandon(), which drops the open episode, and begin a new one"
)
HALF_ACT = "act was interrupted: call go_on() and act(…) again; or abandon(), which drops the open episode, and begin anew"
HALF_OBSERVE = "observe was interrupted: call abandon(), which drops the open episode, and begin a new one"


def batch_of(model: Model, observation: Any, masks: Any, lanes: int, batched: bool) -> Any:
    """The observation of every lane, [lanes, …]: as many as there are lanes, each of the environment's shape."""
    observations = model.observations
    if model.masked:
        observation = joined(observations, observation, masks, lanes)
        observation[MASK] = observation[MASK] if batched else observation[MASK][0]
    if observations.structured:
        return observations.fitted(observation if batched else observations.batch(observation), lanes)
    batch = border.numbers("the observations", observation) if batched else observations.batch(observation)
    shape, expected = batch.shape, (lanes, *observations.shape)
    if shape != expected and (len(shape) == 0 or shape[0] != lanes or batch.size != math.prod(expected)):
        given = list(shape) if batched else list(shape[1:])
        wanted = list(expected) if batched else list(expected[1:])
        raise SpecError(f"the observation must have shape {wanted}, not {given}")
    return batch.reshape(expected)


def columns_for(model: Model, keep: bool | None) -> tuple[Columns, bool]:
    """Empty columns for what such a policy meets and does, and whether observations are kept; None: if they are small."""
    engine, observations = model.engine, model.observations
    small = observations.size <= SMALL
    cheap = small or observations.size * np.dtype(observations.dtype).itemsize <= KEPT
    keep = cheap if keep is None else keep
    kinds: dict[str, tuple[int, Any]] = {
        "episode": (1, np.int64), "actions": (model.actions.dim, np.float64), "rewards": (1, np.float64),
        "log_e": (1, np.float64), "log_b": (1, np.float64),
    }  # fmt: skip
    if isinstance(engine, External):
        kinds["encoded"] = (engine.obs_dim, np.float32)
    if keep or not isinstance(engine, External):
        own = engine is None or (isinstance(engine, External) and not small)
        kinds["observations"] = (observations.size, observations.dtype if own else np.float64)
    return Columns(kinds), keep


def success_of(info: Any) -> float:
    """Whether an `info` says that its trajectory succeeded: 1 or 0, or nan where it does not say.

    A number that is neither 0 nor 1, such as a score or a rate, does not say so.
    """
    if info is None:
        return math.nan
    if not isinstance(info, Mapping):
        raise SpecError(f"the environment's info must be a dictionary, not a {type(info).__name__}")
    for name in SUCCESS:
        if info.get(name) is not None:
            flag = border.numbers(f"info[{name!r}]", info[name])
            if flag.size != 1:
                raise SpecError(f"info[{name!r}] must be one truth value, not {list(flag.shape)} of them")
            value = float(flag.reshape(-1)[0])
            return value if value in (0.0, 1.0) else math.nan
    return math.nan


Ending = tuple[float, np.ndarray | None]  # of a trajectory: whether it succeeded, and the observation after its last step


def ending_of(model: Model, keep: bool, last: Any, info: Any) -> Ending:
    """What the environment says of a trajectory's end. It is looked at before any of the step is recorded.

    keep  whether observations are kept; if not, the last one is not looked at
    """
    success, seen = success_of(info), model.observations
    if last is None or not keep:
        return success, None
    if model.masked:  # after the last step nothing is allowed, and nobody asks
        last = {MASK: np.zeros(seen.space[MASK].shape, np.int8), "observation": last}  # type: ignore[index]
    if seen.structured:
        return success, seen.rows(seen.batch(last))[0]
    row = border.numbers("the observation after the last step", last)
    if row.size != seen.size:
        raise SpecError(f"the observation after the last step must have shape {list(seen.shape)}, not {list(row.shape)}")
    return success, np.array(row)


def endings_of(model: Model, keep: bool, lanes: int, ending: list[int], batch: Any, infos: Any) -> dict[int, Ending]:
    """The same for those of several lanes whose trajectories end."""
    listed = infos if isinstance(infos, Sequence) else infos.tolist() if isinstance(infos, np.ndarray) else None
    if infos is not None and (not isinstance(listed, Sequence) or len(listed) != lanes):
        raise SpecError(f"the infos must be a list of {lanes} dictionaries, one for each lane")
    if (isinstance(batch, list) and len(batch) != lanes) or (isinstance(batch, np.ndarray) and batch.shape[:1] != (lanes,)):
        raise SpecError(f"there must be {lanes} observations after the last step, one for each lane")
    found = {}
    for lane in ending:
        last = None if batch is None or not keep else _of_lane(model, batch, lane)
        found[lane] = ending_of(model, keep, last, None if listed is None else listed[lane])
    return found


def _of_lane(model: Model, batch: Any, lane: int) -> Any:
    """A lane's own observation. A batch is a list where only some lanes have one."""
    listed = isinstance(batch, list) or (isinstance(batch, np.ndarray) and batch.dtype == object)
    try:
        if listed or model.masked:  # a masked policy observes more than the environment gives
            return {k: x[lane] for k, x in batch.items()} if isinstance(batch, dict) else batch[lane]
        return model.observations.take(batch, lane)
    except (IndexError, KeyError, TypeError, ValueError):
        raise SpecError(f"there is no observation after the last step of lane {lane}") from None


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
