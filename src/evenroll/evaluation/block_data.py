"""The data of blocks: checked where it was read from a file, and joined to rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenroll.collection.merging import State, sums_of
from evenroll.collection.recorder import Recorder
from evenroll.collection.rollouts import Rollouts
from evenroll.engine import border
from evenroll.errors import DataError
from evenroll.evaluation.episode_blocks import Block, Collected
from evenroll.policies import External

EPISODES = ("returns", "terminated", "log_weights", "success")
STEPS = ("observations", "actions", "rewards", "log_e", "log_b", "features", "outputs")
NEEDED = ("returns", "ends", "terminated", "log_weights", "actions", "rewards", "log_e", "log_b", "success")


def joined(blocks: Sequence[Collected], recorder: Recorder, episodes: int) -> Rollouts:
    """The blocks one after the other, up to this many episodes."""
    if not blocks:
        empty = recorder.rollouts(unfinished=False)
        return empty if recorder.initial is None else empty.split_initial()[1]

    def column(name: str) -> Any:
        parts = [block.columns.get(name) for block in blocks]
        return None if any(part is None for part in parts) else np.concatenate(parts)  # type: ignore[arg-type]

    before = np.cumsum([0, *(block.steps for block in blocks)])
    ends = np.concatenate([block.columns["ends"] + first for block, first in zip(blocks, before, strict=False)])
    success = column("success")
    told = success is not None and bool(np.isfinite(success).all())
    data = Rollouts(
        recorder.gamma, int(before[-1]), ends=ends, horizon=recorder.horizon,
        **{name: column(name) for name in (*EPISODES[:-1], *STEPS)}, success=success if told else None,
    )  # fmt: skip
    return data if data.episodes <= episodes else data.prefix(int(data.ends[episodes - 1]))


def half_said(blocks: Sequence[Collected]) -> tuple[str, ...]:
    """What to say where the environment reports a success at the end of some episodes only."""
    flags = np.concatenate([block.columns["success"] for block in blocks]) if blocks else np.zeros(0)
    told = int(np.isfinite(flags).sum())
    if told in (0, len(flags)):
        return ()
    return (
        f"a success is reported at the end of {told} of {len(flags)} episodes only, so no success rate is known: "
        'let info["is_success"] be True or False at the end of every episode',
    )


def checked(found: Collected, block: Block, recorder: Recorder, state: State | None) -> Collected:
    """A block that was read from a file. Compiled code will use its numbers, so each must be one that it may meet."""
    columns, model = dict(found.columns), recorder.model
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise DataError(f"it has no {missing[0]}")
    ends = columns["ends"]
    if ends.dtype != np.int64 or ends.shape != (block.count,) or (np.diff(ends, prepend=0) < 1).any():
        raise DataError("its episodes do not follow each other")
    steps = int(ends[-1])
    for name in EPISODES:
        kind = "b" if name == "terminated" else "f"
        if columns[name].shape != (block.count,) or columns[name].dtype.kind != kind:
            raise DataError(f"{name} does not fit")
    for name in STEPS:
        if name in columns and (len(columns[name]) != steps or columns[name].ndim != (1 if name in STEPS[2:5] else 2)):
            raise DataError(f"{name} does not fit")
    for name in (*EPISODES[:1], *STEPS):
        if name in columns and (columns[name].dtype.kind != "f" or not np.isfinite(columns[name]).all()):
            raise DataError(f"{name} does not fit")
    border.places("it has an action", columns["actions"], model.actions.choices, DataError)
    states, engine = model.observations.n_states, model.engine
    if states is not None and "observations" in columns:
        border.places("it has a state", columns["observations"], (states,), DataError)
    if isinstance(engine, External):
        widths = (engine.features_dim + 1, engine.obs_dim - engine.features_dim)
        if tuple(columns[name].shape[1] if name in columns else -1 for name in ("features", "outputs")) != widths:
            raise DataError("its features do not fit")
    elif columns.get("observations") is None and engine is not None:
        raise DataError("it has no observations")
    _check_added(found, block, recorder, state)
    return found


def _check_added(found: Collected, block: Block, recorder: Recorder, state: State | None) -> None:
    """Raise unless what the block has added to the balance has the shape of it."""
    if state is None or recorder.stepper is None:
        return
    balance = recorder.stepper.balance
    sums = sums_of(balance.sampler, balance.policy)
    vectors, memory = (state[name] for name in ("vectors", "memory"))
    expected = {"clock": (2,), "tally": (4,)}
    if block.alone:
        expected |= {"vectors": vectors.shape, "memory": memory.shape}
    else:
        expected |= {"vectors": vectors[sums.vectors].shape, "memory": memory[sums.memory].shape}
    for name, shape in expected.items():
        array = found.added[name]
        if array.shape != shape or not np.isfinite(array).all():
            raise DataError(f"what it has added ({name}) does not fit")
    if block.alone:
        balance.sampler.check_memory(balance.policy, found.added["memory"])
