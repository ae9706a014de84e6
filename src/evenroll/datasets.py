"""Rollouts in files: .parquet (one row a step), .safetensors (columns), or a Minari directory (.minari).

log π_e and log π_b are kept. Reading builds no environment: spaces and numbers only.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from evenroll.errors import DataError, EvenrollError
from evenroll.files import write_atomically
from evenroll.rollouts import Rollouts
from evenroll.spaces import Actions, Observations

KEY = "evenroll.rollouts"
PER_STEP = ("observations", "actions", "rewards", "log_e", "log_b")
PER_EPISODE = ("returns", "ends", "terminated", "log_weights", "success")


def save_rollouts(data: Rollouts, path: str | Path) -> None:
    """Write what was recorded, in the format that the file's name says."""
    path = Path(path)
    writers = {".parquet": _write_parquet, ".safetensors": _write_columns}
    if path.suffix not in writers:
        raise DataError(f"{path.name}: rollouts are written as .parquet or .safetensors")
    writers[path.suffix](data, path)


def load_rollouts(path: str | Path, gamma: float | None = None) -> Rollouts:
    """Read rollouts. `gamma` replaces the discount they were written with; files of others (Minari) have none: then 1."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path.name}: no such file")
    try:
        if path.is_dir():
            data = _read_minari(path)
        elif path.suffix == ".parquet":
            data = _read_parquet(path)
        elif path.suffix == ".safetensors":
            data = _read_columns(path)
        else:
            raise DataError("rollouts are read from .parquet, .safetensors or a Minari directory")
    except DataError as error:
        raise DataError(f"{path.name}: {error}") from None
    return data if gamma is None or gamma == data.gamma else with_gamma(data, gamma)


def with_gamma(data: Rollouts, gamma: float) -> Rollouts:
    """The same trajectories, their returns with another discount."""
    import dataclasses

    if not 0.0 <= gamma <= 1.0:
        raise DataError(f"gamma must lie in [0, 1], not {gamma}")
    return dataclasses.replace(data, gamma=gamma, returns=_returns(data.column("rewards"), data.ends, gamma))


def _returns(rewards: np.ndarray, ends: np.ndarray, gamma: float) -> np.ndarray:
    lengths = np.diff(ends, prepend=0)
    t = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
    owner = np.repeat(np.arange(len(ends)), lengths)
    return np.bincount(owner, gamma ** t.astype(np.float64) * rewards[: len(t)], minlength=len(ends))


def _checked(data: Rollouts) -> Rollouts:
    """What every reader's result must satisfy."""
    if (data.lengths < 1).any() or (data.episodes and data.ends[-1] > data.steps):
        raise DataError("episodes do not follow each other")
    for name in PER_STEP:
        column = getattr(data, name)
        if column is not None and len(column) != data.steps:
            raise DataError(f"{name} has {len(column)} rows, not {data.steps}")
    for name in ("observations", "actions", "rewards"):
        column = getattr(data, name)
        if column is not None and not np.isfinite(column).all():
            raise DataError(f"{name} holds a value that is not finite (row {int(np.argwhere(~np.isfinite(column))[0][0])})")
    return data


# ---- safetensors ---------------------------------------------------------------------------------------------------


def _write_columns(data: Rollouts, path: Path) -> None:
    arrays = {name: getattr(data, name) for name in (*PER_STEP, *PER_EPISODE)}
    arrays = {name: np.ascontiguousarray(x) for name, x in arrays.items() if x is not None and x.size}
    spec = {"gamma": data.gamma, "steps": data.steps, "horizon": data.horizon}
    write_atomically(path, bytes(save(arrays, metadata={KEY: json.dumps(spec)})))


def _read_columns(path: Path) -> Rollouts:
    try:
        with safe_open(path, framework="numpy") as file:
            spec = json.loads((file.metadata() or {})[KEY])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        ends = arrays.get("ends", np.zeros(0, np.int64))
        return _checked(
            Rollouts(
                float(spec["gamma"]),
                int(spec["steps"]),
                arrays.get("returns", np.zeros(0)),
                ends,
                arrays.get("terminated", np.zeros(0, bool)),
                arrays.get("log_weights"),
                arrays.get("observations"),
                arrays.get("actions"),
                arrays.get("rewards"),
                arrays.get("log_e"),
                arrays.get("log_b"),
                horizon=spec["horizon"],
                success=arrays.get("success"),
            )
        )
    except (SafetensorError, KeyError, ValueError, TypeError, OSError) as error:
        raise DataError(f"not rollouts ({str(error).splitlines()[0]})") from None


# ---- Parquet -------------------------------------------------------------------------------------------------------


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise EvenrollError("Parquet needs pyarrow: pip install evenroll[data]") from None
    return pyarrow


def _write_parquet(data: Rollouts, path: Path) -> None:
    """Columns episode, t, observation, action (lists), reward, log_e, log_b, and terminated, truncated, success of the last
    step of an episode. A reader in any language finds γ in the metadata."""
    pa = _pyarrow()
    n, lengths = data.episodes, data.lengths
    episode = np.append(np.repeat(np.arange(n), lengths), np.full(data.steps - int(lengths.sum()), n))
    first = np.append(data.ends - lengths, data.ends[-1] if n else 0)
    last, success = np.zeros(data.steps, bool), np.full(data.steps, np.nan)
    last[data.ends - 1] = True
    ended = np.zeros(data.steps, bool)
    ended[data.ends - 1] = data.terminated
    columns: dict[str, Any] = {"episode": episode, "t": np.arange(data.steps) - first[episode]}
    for name, column in (("observation", data.observations), ("action", data.actions)):
        if column is not None:
            flat = pa.array(np.ascontiguousarray(column).ravel())
            columns[name] = pa.FixedSizeListArray.from_arrays(flat, column.shape[1])
    for name, values in (("reward", data.rewards), ("log_e", data.log_e), ("log_b", data.log_b)):
        if values is not None:
            columns[name] = values
    columns |= {"terminated": ended, "truncated": last & ~ended}
    if data.success is not None:
        success[data.ends - 1] = data.success
        columns["success"] = success
    spec = {"gamma": data.gamma, "horizon": data.horizon}
    table = pa.table(columns).replace_schema_metadata({KEY: json.dumps(spec)})
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink)
    write_atomically(path, sink.getvalue().to_pybytes())


def _read_parquet(path: Path) -> Rollouts:
    pa = _pyarrow()
    try:
        table = pa.parquet.read_table(path, partitioning=None)
        spec = json.loads((table.schema.metadata or {}).get(KEY.encode(), b'{"gamma": 1.0, "horizon": null}'))
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise DataError(f"not a Parquet file ({str(error).splitlines()[0]})") from None
    missing = {"episode", "observation", "action", "reward"} - columns.keys()
    if missing:
        raise DataError(f"column {min(missing)} is missing; needed are episode, observation, action and reward")

    def rows(name: str) -> np.ndarray:
        column = columns[name]
        if hasattr(column, "flatten") and pa.types.is_nested(column.type):
            flat = column.flatten().to_numpy(zero_copy_only=False)
            return np.array(flat.reshape(len(column), -1))  # pyarrow's own memory cannot be written
        return np.array(column.to_numpy(zero_copy_only=False)).reshape(len(column), -1)

    def numbers(name: str) -> np.ndarray | None:
        return rows(name)[:, 0].astype(np.float64) if name in columns else None

    try:
        episode = rows("episode")[:, 0]
        ended = rows("terminated")[:, 0].astype(bool) if "terminated" in columns else None
        cut = rows("truncated")[:, 0].astype(bool) if "truncated" in columns else None
        return _assemble(
            float(spec["gamma"]), spec["horizon"], episode, rows("observation"), rows("action").astype(np.float64),
            rows("reward")[:, 0].astype(np.float64), ended, cut, numbers("log_e"), numbers("log_b"), numbers("success"),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"its columns do not fit ({str(error).splitlines()[0]})") from None


def _assemble(
    gamma: float, horizon: int | None, episode: np.ndarray, observations: np.ndarray, actions: np.ndarray,
    rewards: np.ndarray, ended: np.ndarray | None, cut: np.ndarray | None, log_e: np.ndarray | None,
    log_b: np.ndarray | None, success: np.ndarray | None,
) -> Rollouts:  # fmt: skip
    """Rollouts from rows in order. Episodes end where the episode's number changes; only the last may be unfinished."""
    steps = len(episode)
    changes = np.flatnonzero(np.diff(episode)) + 1
    if len(np.unique(episode)) != len(changes) + (1 if steps else 0):
        raise DataError("the rows of an episode must be next to each other")
    ends = np.append(changes, steps) if steps else np.zeros(0, np.int64)
    over = None if ended is None or cut is None else (ended | cut)[ends - 1]
    if over is not None and len(over) and not over[-1]:
        ends, over = ends[:-1], over[:-1]
    if over is not None and not over.all():
        raise DataError(f"episode {episode[ends[np.argmin(over)] - 1]} has no end; only the last may be unfinished")
    terminated = np.zeros(len(ends), bool) if ended is None else ended[ends - 1]
    weights = None
    if log_e is not None and log_b is not None:
        weights = np.diff(np.append(0.0, np.cumsum(log_e - log_b))[np.append(0, ends)])
    told = None if success is None else success[ends - 1]
    return _checked(
        Rollouts(
            gamma, steps, _returns(rewards, ends, gamma), ends, terminated, weights, observations, actions, rewards,
            log_e, log_b, horizon=horizon, success=told if told is not None and np.isfinite(told).all() else None,
        )
    )  # fmt: skip


# ---- Minari --------------------------------------------------------------------------------------------------------


def _minari() -> Any:
    try:
        import minari.data_collector
        import minari.dataset.minari_storage
    except ImportError:
        raise EvenrollError("Minari data needs minari: pip install evenroll[minari]") from None
    return minari


def save_minari(
    data: Rollouts, path: str | Path, observation_space: gym.Space[Any], action_space: gym.Space[Any],
    last_observations: dict[int, np.ndarray] | None = None, name: str = "evenroll/collected-v0",
) -> None:  # fmt: skip
    """Finished trajectories as a Minari dataset in directory `path`; log_e and log_b go into the infos.

    last_observations  of each episode, after its last step; where not known, the last one acted on is repeated
    """
    minari = _minari()
    path = Path(path)
    if path.exists():
        raise DataError(f"{path.name} exists already")
    observations, actions = Observations.of(observation_space), Actions.of(action_space)
    path.mkdir(parents=True)
    storage = minari.dataset.minari_storage.MinariStorage.new(
        path / "data",
        observation_space=observation_space,
        action_space=action_space,
        data_format="arrow",
        jpeg_encoding=False,
    )
    storage.update_metadata({"dataset_id": name, "minari_version": minari.__version__})
    buffers = []
    for i, (end, length) in enumerate(zip(data.ends, data.lengths, strict=True)):
        part = slice(end - length, end)
        seen = data.column("observations")[part]
        final = (last_observations or {}).get(i)
        final = seen[-1:] if final is None else observations.rows(np.asarray(final)[None])
        whole = np.append(seen, final, axis=0) + observations.start
        infos: dict[str, list[float]] = {}
        for key in ("log_e", "log_b"):
            column = getattr(data, key)
            if column is not None:
                infos[key] = np.append(column[part], np.nan).tolist()  # of an array Minari forgets the shape
        infos["success"] = [math.nan if data.success is None else float(data.success[i])] * (int(length) + 1)
        ended = np.zeros(length, bool)
        ended[-1] = data.terminated[i]
        cut = np.zeros(length, bool)
        cut[-1] = not data.terminated[i]
        drawn = data.column("actions")[part]
        shaped = actions.to_envs(drawn) if actions.choices else drawn.reshape(length, *action_space.shape)  # type: ignore[misc]
        whole = whole[:, 0].astype(np.int64) if observations.n_states is not None else whole.reshape(-1, *observations.shape)
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=i, observations=whole.astype(observations.dtype), actions=shaped.astype(action_space.dtype),
                rewards=data.column("rewards")[part], terminations=ended, truncations=cut, infos=infos,
            )
        )  # fmt: skip
    storage.update_episodes(buffers)


def _read_minari(path: Path) -> Rollouts:
    minari = _minari()
    where = path / "data" if (path / "data").is_dir() else path
    try:
        storage = minari.dataset.minari_storage.MinariStorage.read(where)
        episodes = list(storage.get_episodes(range(storage.total_episodes)))
    except Exception as error:  # whatever minari raises on what is not its own
        raise DataError(f"not a Minari dataset ({type(error).__name__}: {str(error).splitlines()[0]})") from None
    observations, actions = Observations.of(storage.observation_space), Actions.of(storage.action_space)
    if not episodes:
        raise DataError("no episodes in it")

    def info(key: str) -> np.ndarray | None:
        if any(key not in e["infos"] for e in episodes):
            return None
        return np.concatenate([np.ravel(e["infos"][key])[: len(e["rewards"])] for e in episodes])

    number = np.repeat(np.arange(len(episodes)), [len(e["rewards"]) for e in episodes])
    rewards, ended, cut = (
        np.concatenate([np.asarray(e[key]) for e in episodes]) for key in ("rewards", "terminations", "truncations")
    )
    return _assemble(
        1.0, None, number, np.concatenate([observations.rows(e["observations"][:-1]) for e in episodes]),
        np.concatenate([actions.from_env(e["actions"]) for e in episodes]), rewards, ended, cut,
        info("log_e"), info("log_b"), info("success"),
    )  # fmt: skip
