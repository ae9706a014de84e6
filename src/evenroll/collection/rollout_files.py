"""Rollouts in files: .parquet (one row a step), .safetensors (columns), or a Minari directory (.minari).

log π_e and log π_b are kept. Reading builds no environment and runs nothing: spaces and numbers only, with limits on what
a file may unpack to. Files that we write carry a checksum.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.adapters.spaces import Actions, Observations
from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError, EvenrollError, SpecError
from evenroll.files.safe_files import (
    CHANGED,
    CHECKSUM,
    checksum,
    new_directory,
    read_bytes,
    read_json,
    read_tensors,
    tensor_bytes,
    write_atomically,
)
from evenroll.files.untrusted_arrow import pyarrow, read_arrow, read_parquet
from evenroll.text.numbers import first_line

KEY = "evenroll.rollouts"
PER_STEP = ("observations", "actions", "rewards", "log_e", "log_b")
PER_EPISODE = ("returns", "ends", "terminated", "log_weights", "success")
WIDE = ("observations", "actions")
LARGEST = 4 << 30  # bytes of a file
JSON_LARGEST = 8 << 20
WIDEST = 1e8  # numbers in an observation
UNPACKED, RATIO = 1 << 30, 16  # it may unpack to the larger of so many bytes and of so many times its size


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
    try:
        if path.is_dir():
            data = _read_minari(path)
        elif path.suffix == ".parquet":
            data = _read_parquet(path)
        elif path.suffix == ".safetensors":
            data = _read_columns(path)
        else:
            raise DataError("rollouts are read from .parquet, .safetensors or a Minari directory")
    except (DataError, SpecError) as error:
        raise DataError(f"{path.name}: {error}") from None
    except OSError as error:
        raise DataError(f"{path.name}: cannot be read: {error.strerror or error}") from None
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
    if not 0.0 <= data.gamma <= 1.0:
        raise DataError(f"gamma must lie in [0, 1], not {data.gamma}")
    if data.horizon is not None and (not isinstance(data.horizon, int) or data.horizon < 1):
        raise DataError(f"the horizon must be at least 1, not {data.horizon}")
    for name in (*PER_STEP, *PER_EPISODE):
        column = getattr(data, name)
        rows = data.steps if name in PER_STEP else len(data.ends)
        if column is not None and (len(column) != rows or column.ndim != (2 if name in WIDE else 1)):
            raise DataError(f"{name} has {len(column)} rows of {column.ndim - 1} dimensions, which does not fit {rows}")
    if data.steps < 0 or (data.lengths < 1).any() or (data.episodes and data.ends[-1] > data.steps):
        raise DataError("episodes do not follow each other")
    for name in ("observations", "actions", "rewards", "returns"):
        column = getattr(data, name)
        if column is not None and not np.isfinite(column).all():
            raise DataError(f"{name} holds a value that is not finite (row {int(np.argwhere(~np.isfinite(column))[0][0])})")
    return data


# ---- safetensors ---------------------------------------------------------------------------------------------------


def _write_columns(data: Rollouts, path: Path) -> None:
    arrays = {name: getattr(data, name) for name in (*PER_STEP, *PER_EPISODE)}
    spec = {"gamma": data.gamma, "steps": data.steps, "horizon": data.horizon}
    write_atomically(path, tensor_bytes(KEY, spec, {name: x for name, x in arrays.items() if x is not None}))


def _read_columns(path: Path) -> Rollouts:
    spec, arrays = read_tensors(path, KEY, LARGEST, DataError)
    kinds = {"ends": "i", "terminated": "b"}
    for name, array in arrays.items():
        if array.ndim == 0 or array.dtype.kind not in kinds.get(name, "fiu"):
            raise DataError(f"not rollouts ({name} has type {array.dtype})")
    try:
        return _checked(
            Rollouts(
                float(spec["gamma"]),
                int(spec["steps"]),
                arrays.get("returns", np.zeros(0)),
                arrays.get("ends", np.zeros(0, np.int64)).astype(np.int64),
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
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise DataError(f"not rollouts ({first_line(error)})") from None


# ---- Parquet -------------------------------------------------------------------------------------------------------


def _write_parquet(data: Rollouts, path: Path) -> None:
    """Columns episode, t, observation, action (lists), reward, log_e, log_b, and terminated, truncated, success of the last
    step of an episode. A reader in any language finds γ in the metadata."""
    pa = pyarrow()
    n, lengths = data.episodes, data.lengths
    episode = np.append(np.repeat(np.arange(n), lengths), np.full(data.steps - int(lengths.sum()), n))
    first = np.append(data.ends - lengths, data.ends[-1] if n else 0)
    last, success = np.zeros(data.steps, bool), np.full(data.steps, np.nan)
    last[data.ends - 1] = True
    ended = np.zeros(data.steps, bool)
    ended[data.ends - 1] = data.terminated
    recorded = {
        "episode": episode, "t": np.arange(data.steps) - first[episode], "observation": data.observations,
        "action": data.actions, "reward": data.rewards, "log_e": data.log_e, "log_b": data.log_b,
    }  # fmt: skip
    columns = {name: column for name, column in recorded.items() if column is not None}
    columns |= {"terminated": ended, "truncated": last & ~ended}
    if data.success is not None:
        success[data.ends - 1] = data.success
        columns["success"] = success
    text = json.dumps({"gamma": data.gamma, "horizon": data.horizon})
    table = pa.table({name: _listed(pa, column) for name, column in columns.items()})
    table = table.replace_schema_metadata({KEY: text, CHECKSUM: checksum(text, columns)})
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink)
    write_atomically(path, sink.getvalue().to_pybytes())


def _listed(pa: Any, column: np.ndarray) -> Any:
    """A column of numbers, or of lists of them."""
    if column.ndim == 1:
        return pa.array(column)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(column).ravel()), column.shape[1])


COLUMNS = ("episode", "t", "observation", "action", "reward", "log_e", "log_b", "terminated", "truncated", "success")
NEEDED = ("episode", "observation", "action", "reward")


def _read_parquet(path: Path) -> Rollouts:
    raw = read_bytes(path, LARGEST, DataError)
    table = read_parquet(raw, max(UNPACKED, RATIO * len(raw)), COLUMNS)
    metadata = table.schema.metadata or {}
    text = metadata.get(KEY.encode(), b'{"gamma": 1.0, "horizon": null}')
    spec = read_json(text, f"the metadata key {KEY}", DataError)
    missing = set(NEEDED) - set(table.column_names)
    if missing:
        raise DataError(f"column {min(missing)} is missing; needed are episode, observation, action and reward")
    try:
        columns = {name: _unlisted(table.column(name)) for name in table.column_names}
        if CHECKSUM.encode() in metadata and metadata[CHECKSUM.encode()] != checksum(text.decode(), columns).encode():
            raise DataError(CHANGED)

        def one(name: str, kind: Any = np.float64) -> Any:
            if name not in columns:
                return None
            if kind is not np.float64 and not np.isfinite(columns[name]).all():
                raise ValueError(f"{name} is not a number")
            return columns[name].astype(kind).reshape(table.num_rows)

        def rows(name: str) -> np.ndarray:
            x = columns[name]
            return x if x.ndim == 2 else x.reshape(table.num_rows, -1 if table.num_rows else 1)

        return _assemble(
            float(spec["gamma"]), spec["horizon"], one("episode", np.int64), rows("observation"),
            rows("action").astype(np.float64), one("reward"), one("terminated", bool), one("truncated", bool),
            one("log_e"), one("log_b"), one("success"),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise DataError(f"its columns do not fit ({first_line(error)})") from None


def _unlisted(column: Any) -> np.ndarray:
    """A column of an Arrow table as an array [rows], or [rows, n] if it is of lists, all of one length."""
    pa = pyarrow()
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column.null_count and not pa.types.is_floating(column.type):
        raise ValueError("a number is missing")
    if not (pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)):
        return np.array(column.to_numpy(zero_copy_only=False))  # pyarrow's own memory cannot be written
    flat = _unlisted(column.flatten())
    if pa.types.is_list(column.type) and len(np.unique(np.diff(column.offsets.to_numpy()))) > 1:
        raise ValueError("its lists differ in length")
    if len(column) == 0:
        return flat.reshape(0, column.type.list_size if pa.types.is_fixed_size_list(column.type) else 1)
    return flat.reshape(len(column), -1)


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
    observations, actions = Observations.of(observation_space), Actions.of(action_space)
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
    with new_directory(path) as directory:
        storage = minari.dataset.minari_storage.MinariStorage.new(
            directory / "data",
            observation_space=observation_space,
            action_space=action_space,
            data_format="arrow",
            jpeg_encoding=False,
        )
        storage.update_metadata({"dataset_id": name, "minari_version": minari.__version__})
        storage.update_episodes(buffers)


def _read_minari(path: Path) -> Rollouts:
    """Minari's own reader is not used: where the file has no spaces, it builds the environment that the file names."""
    where = path / "data" if (path / "data").is_dir() else path
    try:
        about = read_json(read_bytes(where / "metadata.json", JSON_LARGEST, DataError), "it", DataError)
    except DataError as error:
        raise DataError(f"not a Minari dataset (metadata.json: {error})") from None
    observation_space, action_space = (_space(about, name) for name in ("observation_space", "action_space"))
    observations, actions = Observations.of(observation_space), Actions.of(action_space)
    if about.get("data_format") not in ("arrow", "parquet"):
        raise DataError(f"a Minari dataset as {about.get('data_format')} is not read: only as arrow or parquet")
    count = about.get("total_episodes")
    if not isinstance(count, int) or not 0 < count <= sum(1 for _ in where.iterdir()):
        raise DataError(f"no episodes in it, or not the {count} that it claims")
    episodes = [_episode(where / str(i), about["data_format"]) for i in range(count)]
    width = observations.size

    def info(key: str) -> np.ndarray | None:
        if any(key not in e for e in episodes):
            return None
        return np.concatenate([e[key].astype(np.float64).reshape(-1)[:-1] for e in episodes])

    try:
        number = np.repeat(np.arange(count), [len(e["rewards"]) - 1 for e in episodes])
        rewards, ended, cut = (
            np.concatenate([e[key].reshape(len(e[key]))[:-1] for e in episodes])
            for key in ("rewards", "terminations", "truncations")
        )
        seen = np.concatenate([observations.rows(e["observations"].reshape(-1, width)[:-1]) for e in episodes])
        taken = np.concatenate([actions.from_env(e["actions"][:-1]) for e in episodes])
        return _assemble(
            1.0, None, number, seen, taken, rewards.astype(np.float64), ended.astype(bool), cut.astype(bool),
            info("log_e"), info("log_b"), info("success"),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, SpecError) as error:
        raise DataError(f"its episodes do not fit ({first_line(error)})") from None


def _space(about: dict[str, Any], name: str) -> gym.Space[Any]:
    """A space of numbers that metadata.json describes. `shape` and `n` may claim anything."""
    _minari()
    from minari.serialization import deserialize_space

    try:
        told = json.loads(about[name])
        shape = np.ravel(told.get("shape", told["n"] if told["type"] == "MultiBinary" else 1))
        size = math.prod(float(n) for n in shape)
        if not 0 < size <= WIDEST or np.dtype(told.get("dtype", "int8")).kind not in "fiub":
            raise ValueError("its size or type is not possible")
        return deserialize_space(told)
    except (KeyError, ValueError, TypeError, AttributeError, AssertionError, RecursionError, OverflowError) as error:
        raise DataError(f"not a Minari dataset ({name}: {first_line(error)})") from None


def _episode(directory: Path, kind: str) -> dict[str, np.ndarray]:
    """The columns of an episode, those of its infos that are ours among them; the last row is only an observation."""
    try:
        parts = [p for p in directory.iterdir() if p.name != "metadata.json" and not p.name.startswith((".", "_"))]
    except OSError as error:
        raise DataError(f"episode {directory.name} cannot be read: {error.strerror or error}") from None
    if len(parts) != 1:
        raise DataError(f"episode {directory.name} is in {len(parts)} files, not one")
    raw = read_bytes(parts[0], LARGEST, DataError)
    names = ("observations", "actions", "rewards", "terminations", "truncations")
    table = read_parquet(raw, max(UNPACKED, RATIO * len(raw)), (*names, "infos")) if kind == "parquet" else read_arrow(raw)
    try:
        columns = {name: _unlisted(table.column(name)) for name in names}
        if "infos" in table.column_names:
            infos = table.column("infos").combine_chunks()
            told = {field.name for field in infos.type} & {"log_e", "log_b", "success"}
            columns |= {name: _unlisted(infos.field(name)) for name in told}
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f"episode {directory.name} does not fit ({first_line(error)})") from None
    if len(columns["rewards"]) < 2:
        raise DataError(f"episode {directory.name} is empty")
    return columns
