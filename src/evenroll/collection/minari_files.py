"""Rollouts as Minari datasets."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.adapters.spaces import Actions, Observations
from evenroll.collection.assembling import assemble, unlisted
from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError, EvenrollError, SpecError
from evenroll.files.safe_files import new_directory, read_bytes, read_json
from evenroll.files.untrusted_arrow import most_unpacked, read_arrow, read_parquet
from evenroll.text.numbers import first_line

# Limits on what a dataset may make us read.
LARGEST = 4 << 30  # the most bytes of a file
JSON_LARGEST = 8 << 20  # the most bytes of metadata.json
WIDEST = 1e8  # the most numbers in an observation or action
CONVERT = (
    "if you trust it, convert it in Python: import evenroll, minari; evenroll.save_rollouts(evenroll.as_rollouts("
    "minari.load_dataset('its id')), 'data.parquet')"
)


def _minari() -> Any:
    try:
        import minari.data_collector
        import minari.dataset.minari_storage
    except ImportError:
        raise EvenrollError("Minari data needs minari: pip install 'evenroll[minari]'") from None
    return minari


def save_minari(
    data: Rollouts, path: str | Path, observation_space: gym.Space[Any], action_space: gym.Space[Any],
    last_observations: dict[int, np.ndarray] | None = None, name: str = "evenroll/collected-v0",
    actions: Actions | None = None,
) -> None:  # fmt: skip
    """Write the finished trajectories as a Minari dataset in the directory `path`. The infos hold log_e and log_b.

    last_observations  the observation after the last step of each episode; where it is not known, the one before is repeated
    actions            how the policy plays its actions: what it drew is squashed as the environment got it
    """
    minari = _minari()
    observations, actions = Observations.of(observation_space), actions or Actions.of(action_space)
    if observations.structured or data.column("observations").shape[1] != observations.size:
        raise SpecError(
            "observations of several parts, or with masks, are not written as Minari data: "
            "--out NAME.parquet or NAME.safetensors keeps them, one part after the other"
        )
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
                infos[key] = np.append(column[part], np.nan).tolist()  # a list, because Minari forgets an array's shape
        infos["success"] = [math.nan if data.success is None else float(data.success[i])] * (int(length) + 1)
        ended = np.zeros(length, bool)
        ended[-1] = data.terminated[i]
        cut = np.zeros(length, bool)
        cut[-1] = not data.terminated[i]
        drawn = data.column("actions")[part]
        as_played = bool(actions.choices) or actions.squash is not None
        shaped = actions.to_envs(drawn) if as_played else drawn.reshape(length, *action_space.shape)  # type: ignore[misc]
        whole = whole[:, 0].astype(np.int64) if observations.n_states is not None else whole.reshape(-1, *observations.shape)
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=i, observations=whole.astype(observations.dtype), actions=shaped.astype(action_space.dtype),
                rewards=data.column("rewards")[part], terminations=ended, truncations=cut, infos=infos,
            )
        )  # fmt: skip
    with new_directory(path) as directory:
        storage = minari.dataset.minari_storage.MinariStorage.new(
            directory.absolute() / "data",  # Minari joins a relative path with itself
            observation_space=observation_space,
            action_space=action_space,
            data_format="arrow",
            jpeg_encoding=False,
        )
        storage.update_metadata({"dataset_id": name, "minari_version": minari.__version__})
        storage.update_episodes(buffers)


def read_minari(path: Path) -> Rollouts:
    """Read a Minari dataset.

    Minari's own reader is not used: where the file has no spaces, it builds the environment that the file names.
    """
    directory = path / "data" if (path / "data").is_dir() else path
    if any(directory.glob("*.hdf5")):
        raise DataError(f"a Minari dataset as HDF5 is not read; {CONVERT}")
    try:
        about = read_json(read_bytes(directory / "metadata.json", JSON_LARGEST, DataError), "it", DataError)
    except DataError as error:
        raise DataError(f"not a Minari dataset (metadata.json: {error})") from None
    observation_space, action_space = (_space(about, name) for name in ("observation_space", "action_space"))
    observations, actions = Observations.of(observation_space), Actions.of(action_space)
    if about.get("data_format") not in ("arrow", "parquet"):
        raise DataError(f"a Minari dataset as {about.get('data_format')} is not read, only as arrow or parquet; {CONVERT}")
    count = about.get("total_episodes")
    if not isinstance(count, int) or not 0 < count <= sum(1 for _ in directory.iterdir()):
        raise DataError(f"no episodes in it, or not the {count} that it claims")
    episodes = [_episode(directory / str(i), about["data_format"]) for i in range(count)]
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
        return assemble(
            1.0, None, number, seen, taken, rewards.astype(np.float64), ended.astype(bool), cut.astype(bool),
            info("log_e"), info("log_b"), info("success"),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, SpecError) as error:
        raise DataError(f"its episodes do not fit ({first_line(error)})") from None


def _space(about: dict[str, Any], name: str) -> gym.Space[Any]:
    """A space of numbers, as metadata.json describes it. Its `shape` and `n` may claim anything, so they are checked."""
    _minari()
    from minari.serialization import deserialize_space

    try:
        described = json.loads(about[name])
        shape = np.ravel(described.get("shape", described["n"] if described["type"] == "MultiBinary" else 1))
        size = math.prod(float(n) for n in shape)
        if not 0 < size <= WIDEST or np.dtype(described.get("dtype", "int8")).kind not in "fiub":
            raise ValueError("its size or type is not possible")
        return deserialize_space(described)
    except (KeyError, ValueError, TypeError, AttributeError, AssertionError, RecursionError, OverflowError) as error:
        raise DataError(f"not a Minari dataset ({name}: {first_line(error)})") from None


def _episode(directory: Path, kind: str) -> dict[str, np.ndarray]:
    """The columns of an episode, with those of its infos that we have written. The last row is only an observation."""
    try:
        parts = [p for p in directory.iterdir() if p.name != "metadata.json" and not p.name.startswith((".", "_"))]
    except OSError as error:
        raise DataError(f"episode {directory.name} cannot be read: {error.strerror or error}") from None
    if len(parts) != 1:
        raise DataError(f"episode {directory.name} is in {len(parts)} files, not one")
    raw = read_bytes(parts[0], LARGEST, DataError)
    names = ("observations", "actions", "rewards", "terminations", "truncations")
    table = read_parquet(raw, most_unpacked(len(raw)), (*names, "infos")) if kind == "parquet" else read_arrow(raw)
    try:
        columns = {name: unlisted(table.column(name)) for name in names}
        if "infos" in table.column_names:
            infos = table.column("infos").combine_chunks()
            ours = {field.name for field in infos.type} & {"log_e", "log_b", "success"}
            columns |= {name: unlisted(infos.field(name)) for name in ours}
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f"episode {directory.name} does not fit ({first_line(error)})") from None
    if len(columns["rewards"]) < 2:
        raise DataError(f"episode {directory.name} is empty")
    return columns
