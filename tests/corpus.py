"""Valid small files of every kind that is read, and malicious or broken ones made from them.

Every bad file comes with the command line that opens it. Where it could make code run, the code touches the canary.
"""

from __future__ import annotations

import base64
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.numpy import save

from evenroll.collection.rollout_files import save_minari, save_rollouts
from evenroll.collection.rollouts import Rollouts
from evenroll.policies import MLP, save_policy

DEEP = "[" * 100_000 + "]" * 100_000
BIG = 10**12
RNG = np.random.default_rng(0)


class Bomb:
    """Unpickled, it touches the canary."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.canary}",)


# ---- valid files -----------------------------------------------------------------------------------------------------


def rollouts() -> Rollouts:
    """Three episodes of something like CartPole, the last unfinished."""
    ends, rewards = np.array([4, 9]), np.ones(12)
    log_b = np.log(RNG.uniform(0.3, 0.7, 12))
    return Rollouts(
        0.9, 12, np.array([3.439, 4.0951]), ends, np.array([True, False]), np.zeros(2), RNG.normal(size=(12, 4)),
        RNG.integers(2, size=(12, 1)).astype(np.float64), rewards, log_b, log_b, horizon=200, success=np.array([1.0, 0.0]),
    )  # fmt: skip


def policy() -> MLP:
    layers = [(RNG.normal(size=(5, 4)), np.zeros(5))]
    return MLP(layers, RNG.normal(size=(2, 5)), np.zeros(2), activation="tanh")


def sb3_data() -> dict[str, Any]:
    """What Stable-Baselines3 writes, as far as it is looked at."""
    return {
        "policy_class": {
            ":type:": "<class 'abc.ABCMeta'>",
            ":serialized:": base64.b64encode(b"never looked at").decode(),
            "__module__": "stable_baselines3.common.policies",
            "__init__": "<function ActorCriticPolicy.__init__ at 0x7f0000000000>",
        },
        "use_sde": False,
        "policy_kwargs": {},
        "observation_space": {":type:": "<class 'gymnasium.spaces.box.Box'>", "dtype": "float32", "_shape": [4]},
        "action_space": {":type:": "<class 'gymnasium.spaces.discrete.Discrete'>", "n": "2"},
    }


def sb3_tensors(**change: Any) -> bytes:
    shapes = {"mlp_extractor.policy_net.0": (5, 4), "mlp_extractor.policy_net.2": (5, 5), "action_net": (2, 5)}
    tensors = {f"{name}.weight": torch.rand(shape) for name, shape in shapes.items()}
    tensors |= {f"{name}.bias": torch.zeros(shape[0]) for name, shape in shapes.items()} | change
    out = io.BytesIO()
    torch.save(tensors, out)
    return out.getvalue()


def zipped(members: dict[str, bytes], kind: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def sb3_zip(data: Any = None, tensors: bytes | None = None, kind: int = zipfile.ZIP_STORED) -> bytes:
    text = data if isinstance(data, bytes) else json.dumps(sb3_data() if data is None else data).encode()
    return zipped({"data": text, "policy.pth": sb3_tensors() if tensors is None else tensors}, kind)


def valid(directory: Path) -> dict[str, Path]:
    """One small file of each kind that is read."""
    paths = {
        "policy": directory / "policy.safetensors",
        "sb3": directory / "model.zip",
        "columns": directory / "data.safetensors",
        "parquet": directory / "data.parquet",
        "minari": directory / "data.minari",
    }
    save_policy(policy(), paths["policy"])
    paths["sb3"].write_bytes(sb3_zip())
    save_rollouts(rollouts(), paths["columns"])
    save_rollouts(rollouts(), paths["parquet"])
    box = gym.spaces.Box(-np.inf, np.inf, (4,), np.float64)
    save_minari(rollouts(), paths["minari"], box, gym.spaces.Discrete(2))
    return paths


# ---- bad ones: name → function of (directory, canary) that makes the file and says how it is opened -------------------

Maker = Callable[[Path, Path], list[str]]
BAD: dict[str, Maker] = {}


def bad(name: str) -> Callable[[Maker], Maker]:
    def keep(make: Maker) -> Maker:
        BAD[name] = make
        return make

    return keep


def as_policy(name: str, make: Callable[[Path], bytes], file: str = "policy.safetensors") -> None:
    """`make` gets the canary and gives the file's bytes."""

    def maker(directory: Path, canary: Path) -> list[str]:
        (directory / file).write_bytes(make(canary))
        return ["evaluate", "CartPole-v1" if file.endswith(".zip") else "cartpole", "--policy", str(directory / file)]

    BAD[name] = maker


def as_data(name: str, make: Callable[[Path], bytes], file: str = "data.parquet") -> None:
    def maker(directory: Path, canary: Path) -> list[str]:
        (directory / file).write_bytes(make(canary))
        return opened(directory, file)

    BAD[name] = maker


def opened(directory: Path, file: str) -> list[str]:
    save_policy(policy(), directory / "good.safetensors")
    return ["diagnose", str(directory / file), "--policy", str(directory / "good.safetensors")]


def raw_tensors(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with any header, of any claimed length."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


LINEAR = {"head.weight": np.ones((2, 4), np.float32), "head.bias": np.zeros(2, np.float32)}
SPEC = json.dumps({"kind": "mlp", "activation": "relu", "head": "softmax"})
META = {"evenroll.policy": SPEC}


def tensors(arrays: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> bytes:
    return bytes(save({**LINEAR, **arrays}, metadata=metadata or META))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def saved(write: Callable[[Any, Path], None], what: Any, suffix: str) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        write(what, Path(place) / f"x{suffix}")
        return (Path(place) / f"x{suffix}").read_bytes()


def claims(shape: list[int], offsets: list[int]) -> dict[str, Any]:
    return {"__metadata__": META, "head.weight": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}


as_policy("an empty file", lambda c: b"")
as_policy("noise", lambda c: np.random.default_rng(1).bytes(5000))
as_policy("a header of 2^60 bytes", lambda c: raw_tensors({}, length=2**60))
as_policy("a header of 2^64 - 1 bytes", lambda c: raw_tensors({}, length=2**64 - 1))
as_policy("a header longer than the file", lambda c: raw_tensors({}, length=1000))
as_policy("10^12 numbers claimed", lambda c: raw_tensors(claims([10**6, 10**6], [0, 4 * BIG])))
as_policy("10^12 numbers in 4 bytes", lambda c: raw_tensors(claims([10**6, 10**6], [0, 4]), bytes(4)))
as_policy("a shape that overflows", lambda c: raw_tensors(claims([2**32, 2**32], [0, 4]), bytes(4)))
as_policy("a negative shape", lambda c: raw_tensors(claims([-1, 4], [0, 16]), bytes(16)))
as_policy("no numbers, 10^15 wide", lambda c: raw_tensors(claims([0, 10**15], [0, 0])))
as_policy("offsets that run backwards", lambda c: raw_tensors(claims([2, 2], [16, 0]), bytes(16)))
as_policy("bytes that belong to no tensor", lambda c: tensors({}) + bytes(100))
as_policy("a header 100,000 deep", lambda c: raw_tensors(DEEP.encode()))
as_policy("a header that is no JSON", lambda c: raw_tensors(b"{'a': __import__('os')}"))
as_policy("metadata 100,000 deep", lambda c: tensors({}, {"evenroll.policy": DEEP}))
as_policy("a number of 10,000 digits", lambda c: tensors({}, {"evenroll.policy": '{"kind": ' + "9" * 10_000 + "}"}))
as_policy("a truncated policy", lambda c: saved(save_policy, policy(), ".safetensors")[:-7])
as_policy("a flipped bit", lambda c: flipped(saved(save_policy, policy(), ".safetensors"), -3))
as_policy(
    "tanh exchanged for relu",
    lambda c: saved(save_policy, policy(), ".safetensors").replace(b"tanh", b"relu"),
)
as_policy("NaN weights", lambda c: tensors({"head.bias": np.full(2, np.nan, np.float32)}))
as_policy("infinite weights", lambda c: tensors({"head.bias": np.full(2, np.inf, np.float32)}))
as_policy("whole-number weights", lambda c: tensors({"head.bias": np.zeros(2, np.int64)}))
as_policy("a name that plays with the terminal", lambda c: tensors({"\x1b]0;owned\x07\x1b[2J\nx": np.ones(2, np.float32)}))
as_policy("a name of a million letters", lambda c: tensors({"x" * 10**6: np.ones(2, np.float32)}))
as_policy("a pickle", lambda c: pickle.dumps(Bomb(c)), "policy.pkl")
as_policy("a pickle by a good name", lambda c: pickle.dumps(Bomb(c)))
as_policy("a YAML tag", lambda c: f"!!python/object/apply:os.system ['touch {c}']".encode(), "policy.yaml")
as_policy("a script", lambda c: f"import os; os.system('touch {c}')".encode(), "policy.py")
as_policy("a joblib-like .npy", lambda c: npy(Bomb(c)), "policy.npy")
as_policy("an .npz with a pickle", lambda c: zipped({"logits.npy": npy(Bomb(c))}), "policy.npz")
as_policy("an old .pt", lambda c: torched(Bomb(c), zipfile_format=False), "policy.pt")
as_policy("a .pt", lambda c: torched(Bomb(c)), "policy.pt")


def npy(thing: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([thing], dtype=object), allow_pickle=True)
    return out.getvalue()


def torched(thing: Any, zipfile_format: bool = True) -> bytes:
    out = io.BytesIO()
    torch.save(thing, out, _use_new_zipfile_serialization=zipfile_format)
    return out.getvalue()


@bad("a directory")
def _(directory: Path, canary: Path) -> list[str]:
    return ["evaluate", "cartpole", "--policy", str(directory)]


@bad("a pipe")
def _(directory: Path, canary: Path) -> list[str]:
    os.mkfifo(directory / "pipe")
    return ["evaluate", "cartpole", "--policy", str(directory / "pipe")]


@bad("an endless device")
def _(directory: Path, canary: Path) -> list[str]:
    return ["evaluate", "cartpole", "--policy", "/dev/zero"]


@bad("a hole of a terabyte")
def _(directory: Path, canary: Path) -> list[str]:
    with (directory / "hole.safetensors").open("wb") as file:
        file.truncate(1 << 40)
    return ["evaluate", "cartpole", "--policy", str(directory / "hole.safetensors")]


@bad("a name that is too long")
def _(directory: Path, canary: Path) -> list[str]:
    return ["evaluate", "cartpole", "--policy", "x" * 5000]


# ---- Stable-Baselines3 zips ------------------------------------------------------------------------------------------


def sb3(name: str, make: Callable[[Path], bytes]) -> None:
    as_policy(f"sb3: {name}", make, "model.zip")


def repickled(pickled: bytes) -> bytes:
    """policy.pth with another description of its tensors."""
    with zipfile.ZipFile(io.BytesIO(sb3_tensors())) as old:
        members = {m: old.read(m) for m in old.namelist()}
    (name,) = (m for m in members if m.endswith("data.pkl"))
    return zipped(members | {name: pickled})


def huge_view() -> bytes:
    """One number that is told to fill a tensor of 10^12."""
    return sb3_tensors(**{"action_net.bias": torch.zeros(1).expand(BIG)})


def contents(data: bytes) -> int:
    """The place of a zip's table of contents."""
    return struct.unpack_from("<I", data, data.rindex(b"PK\5\6") + 16)[0]


def patched_size(data: bytes, size: int) -> bytes:
    """A zip whose table of contents claims another size for its first member."""
    at = contents(data) + 24
    return data[:at] + struct.pack("<I", size) + data[at + 4 :]


def with_flag(data: bytes, flag: int) -> bytes:
    """A zip with other flags of its first member: 1 is encryption."""
    for at in (6, contents(data) + 8):
        data = data[:at] + struct.pack("<H", flag) + data[at + 2 :]
    return data


def twice(data: bytes) -> bytes:
    out = io.BytesIO(data)
    with zipfile.ZipFile(out, "a") as archive:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            archive.writestr("data", b"{}")
    return out.getvalue()


ASKS = b"\x80\x02cbuiltins\nbytearray\n\x8a\x06\0\0\0\0\0\x01\x85R."  # bytearray(2 ** 40)


def changed(**entries: Any) -> dict[str, Any]:
    return sb3_data() | entries


def members(**more: bytes) -> bytes:
    return zipped({"data": json.dumps(sb3_data()).encode(), "policy.pth": sb3_tensors(), **more})


sb3("a pickle for tensors", lambda c: sb3_zip(tensors=pickle.dumps(Bomb(c))))
sb3("a bomb in the tensors", lambda c: sb3_zip(tensors=torched(Bomb(c))))
sb3("a bomb that describes the tensors", lambda c: sb3_zip(tensors=repickled(pickle.dumps(Bomb(c), protocol=2))))
sb3("a bomb of protocol 4", lambda c: sb3_zip(tensors=repickled(pickle.dumps(Bomb(c), protocol=4))))
sb3("a bomb of protocol 0", lambda c: sb3_zip(tensors=repickled(pickle.dumps(Bomb(c), protocol=0))))
sb3("10^12 bytes asked for", lambda c: sb3_zip(tensors=repickled(ASKS)))
sb3("10^12 numbers from one", lambda c: sb3_zip(tensors=huge_view()))
sb3("NaN weights", lambda c: sb3_zip(tensors=sb3_tensors(**{"action_net.bias": torch.full((2,), torch.nan)})))
sb3("a matrix that is a number", lambda c: sb3_zip(tensors=sb3_tensors(**{"action_net.weight": torch.ones(())})))
sb3("tensors that are text", lambda c: sb3_zip(tensors=sb3_tensors(**{"action_net.bias": "0, 0"})))  # type: ignore[arg-type]
sb3("compressed tensors", lambda c: sb3_zip(tensors=zipped({"archive/data.pkl": bytes(1 << 20)}, zipfile.ZIP_DEFLATED)))
sb3("a path that escapes", lambda c: members(**{"../../../escaped": b"x"}))
sb3("an absolute path", lambda c: members(**{"/etc/passwd": b"x"}))
sb3("a path of another system", lambda c: members(**{"..\\..\\escaped": b"x"}))
sb3("a zip bomb", lambda c: sb3_zip(b'"' + b"x" * (32 << 20) + b'"', kind=zipfile.ZIP_DEFLATED))
sb3("4 GiB claimed", lambda c: patched_size(sb3_zip(), 2**32 - 2))
sb3("less claimed than there is", lambda c: patched_size(sb3_zip(), 10))
sb3("JSON 100,000 deep", lambda c: sb3_zip(DEEP.encode()))
sb3("JSON that is a list", lambda c: sb3_zip(b"[1]"))
sb3("no tensors", lambda c: zipped({"data": json.dumps(sb3_data()).encode()}))
sb3("a password", lambda c: with_flag(sb3_zip(), 1))
sb3("another compression", lambda c: sb3_zip(kind=zipfile.ZIP_LZMA))
sb3("a wrong checksum", lambda c: sb3_zip().replace(b"use_sde", b"use_sdf", 1))
sb3("two of one name", lambda c: twice(sb3_zip()))
sb3("2,000 members", lambda c: members(**{str(i): b"" for i in range(2000)}))
sb3("truncated", lambda c: sb3_zip()[:-50])
sb3("a class of its own", lambda c: sb3_zip(changed(policy_class={"__module__": "os", "__init__": "system"})))
sb3("settings that are a list", lambda c: sb3_zip(changed(policy_kwargs=[1])))
sb3("an unknown activation", lambda c: sb3_zip(changed(policy_kwargs={"activation_fn": "<class 'os.system'>"})))


# ---- rollouts ----------------------------------------------------------------------------------------------------------

TABLE: dict[str, Any] = {
    "episode": [0, 0, 1],
    "observation": [[0.0, 1.0, 0.0, 0.0]] * 3,
    "action": [0, 1, 0],
    "reward": [1.0, 2.0, 4.0],
}


def parquet(metadata: dict[str, str] | None = None, without: str = "", **columns: Any) -> bytes:
    table = pa.table({name: column for name, column in (TABLE | columns).items() if name != without})
    out = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), out)
    return out.getvalue()


def parquet_bomb(rows: int) -> bytes:
    """Zeros without end: all of a page is one run."""
    out, part = io.BytesIO(), pa.table({name: np.zeros(1 << 20) for name in TABLE})
    with pq.ParquetWriter(out, part.schema, compression="zstd") as writer:
        for _ in range(rows >> 20):
            writer.write_table(part)
    return out.getvalue()


def extension(canary: Path) -> bytes:
    """A type of Python's own, which old versions of pyarrow unpickled when the file was opened (CVE-2023-47248)."""
    named = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": pickle.dumps(Bomb(canary))}
    schema = pa.schema([pa.field("episode", pa.int64(), metadata=named)])
    out = io.BytesIO()
    pq.write_table(pa.table({"episode": [0]}, schema=schema), out)
    return out.getvalue()


LONG = {name: np.zeros(10**6) for name in TABLE} | {"observation": pa.FixedSizeListArray.from_arrays(np.zeros(4 * 10**6), 4)}


def lying(which: int) -> bytes:
    """A file that in one place claims 2^20 − 1 rows instead of 10^6 (both are varints of 3 bytes)."""
    parts = parquet(**LONG).split(b"\x80\x89\x7a")
    at = which % (len(parts) - 1)
    return b"\x80\x89\x7a".join(parts[: at + 1]) + b"\xfe\xff\x7f" + b"\x80\x89\x7a".join(parts[at + 1 :])


def columns(arrays: dict[str, Any], spec: Any = None) -> bytes:
    text = spec if isinstance(spec, str) else json.dumps({"gamma": 0.9, "steps": 3, "horizon": None} | (spec or {}))
    usual = {
        "observations": np.zeros((3, 4)), "actions": np.zeros((3, 1)), "rewards": np.ones(3), "ends": np.array([2]),
        "returns": np.ones(1), "terminated": np.array([True]),
    }  # fmt: skip
    return bytes(save(usual | arrays, metadata={"evenroll.rollouts": text}))


as_data("parquet: empty", lambda c: b"")
as_data("parquet: noise", lambda c: b"PAR1" + np.random.default_rng(1).bytes(1000) + b"PAR1")
as_data("parquet: a footer of 2 GiB", lambda c: parquet()[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1")
as_data("parquet: truncated", lambda c: parquet()[:-20])
as_data("parquet: a bomb", lambda c: parquet_bomb(20 << 20))
for place in (0, 1, 4):  # the others are places that nobody reads
    as_data(f"parquet: more rows than there are, {place}", lambda c, place=place: lying(place))  # type: ignore[misc]
as_data("parquet: a pickled type", extension)
as_data("parquet: encrypted", lambda c: parquet()[:-4] + b"PARE")
as_data("parquet: text for numbers", lambda c: parquet(reward=["1", "2", "3"]))
as_data("parquet: a column is missing", lambda c: parquet(without="reward"))
as_data("parquet: lists of different lengths", lambda c: parquet(observation=[[0.0] * 4, [0.0] * 3, [0.0] * 5]))
as_data("parquet: lists in lists", lambda c: parquet(observation=[[[0.0], [0.0, 1.0]]] * 3))
as_data("parquet: a missing action", lambda c: parquet(action=[0, None, 1]))
as_data("parquet: a NaN reward", lambda c: parquet(reward=[1.0, np.nan, 1.0]))
as_data("parquet: an action that there is not", lambda c: parquet(action=[0, 7, 1]))
as_data("parquet: a negative action", lambda c: parquet(action=[0, -1, 1]))
as_data("parquet: half an action", lambda c: parquet(action=[0.0, 0.5, 1.0]))
as_data("parquet: episodes mixed up", lambda c: parquet(episode=[0, 1, 0]))
as_data("parquet: an endless discount", lambda c: parquet({"evenroll.rollouts": '{"gamma": 1e999, "horizon": null}'}))
as_data("parquet: metadata 100,000 deep", lambda c: parquet({"evenroll.rollouts": DEEP}))
as_data("parquet: a horizon of lists", lambda c: parquet({"evenroll.rollouts": '{"gamma": 1.0, "horizon": [[]]}'}))
as_data("parquet: changed since", lambda c: parquet({"evenroll.sha256": "0" * 64}))
as_data("parquet: no rows", lambda c: parquet(**{name: np.zeros(0) for name in TABLE}))
as_data("columns: 10^12 steps", lambda c: columns({"ends": np.array([BIG])}, {"steps": BIG}), "data.safetensors")
as_data("columns: endless steps", lambda c: columns({}, '{"gamma": 1, "steps": 1e999, "horizon": null}'), "data.safetensors")
as_data("columns: ends run backwards", lambda c: columns({"ends": np.array([2, 1])}), "data.safetensors")
as_data("columns: ends that are not whole", lambda c: columns({"ends": np.array([1.5])}), "data.safetensors")
as_data("columns: returns of NaN", lambda c: columns({"returns": np.array([np.nan])}), "data.safetensors")
as_data("columns: three dimensions", lambda c: columns({"observations": np.zeros((3, 2, 2))}), "data.safetensors")
as_data("columns: a number for a column", lambda c: columns({"rewards": np.array(1.0)}), "data.safetensors")
as_data("columns: a pickle", lambda c: pickle.dumps(Bomb(c)), "data.safetensors")
as_data(
    "columns: a flipped bit", lambda c: flipped(saved(save_rollouts, rollouts(), ".safetensors"), -3), "data.safetensors"
)
as_data("a pickle for data", lambda c: pickle.dumps(Bomb(c)), "data.pkl")


# ---- Minari ------------------------------------------------------------------------------------------------------------


def minari(name: str, **about: Any) -> None:
    """A dataset with other metadata; None takes an entry away."""

    def maker(directory: Path, canary: Path) -> list[str]:
        valid(directory)
        path = directory / "data.minari" / "data" / "metadata.json"
        told = json.loads(path.read_text())
        for key, value in about.items():
            told[key] = value(canary) if callable(value) else value
        path.write_text(json.dumps({key: value for key, value in told.items() if value is not None}))
        return opened(directory, "data.minari")

    BAD[f"minari: {name}"] = maker


def minari_file(name: str, change: Callable[[bytes], bytes], inside: str = "0/part-0.arrow") -> None:
    def maker(directory: Path, canary: Path) -> list[str]:
        valid(directory)
        path = directory / "data.minari" / "data" / inside
        path.write_bytes(change(path.read_bytes()))
        return opened(directory, "data.minari")

    BAD[f"minari: {name}"] = maker


def environment(canary: Path) -> str:
    """An environment's description that calls anything when it is built."""
    about: dict[str, Any] = {"id": "x-v0", "entry_point": "os:system", "kwargs": {"command": f"touch {canary}"}}
    return gym.envs.registration.EnvSpec(**about).to_json()


def compressed(data: bytes) -> bytes:
    """The same, with 64 MiB of zeros behind a few bytes."""
    table = pa.table({"observations": np.zeros(8 << 20)})
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write(table)
    return out.getvalue()


BOX = {"type": "Box", "dtype": "float64", "low": -1.0, "high": 1.0}
minari("builds an environment", observation_space=None, env_spec=environment)
minari("a space of 10^12 numbers", observation_space=json.dumps(BOX | {"shape": [BIG]}))
minari("10^12 bits", observation_space=json.dumps({"type": "MultiBinary", "n": BIG}))
minari("a space of objects", observation_space=json.dumps(BOX | {"shape": [4], "dtype": "O"}))
minari("a space of spaces", observation_space=json.dumps({"type": "Dict", "subspaces": {}}))
minari("a space 100,000 deep", observation_space=DEEP)
minari("10^12 episodes", total_episodes=BIG)
minari("another format", data_format="hdf5")
minari("a format that is a path", data_format="../../../etc/passwd")
minari_file("metadata 100,000 deep", lambda data: DEEP.encode(), "metadata.json")
minari_file("metadata of noise", lambda data: b"\xff\xfe\xfd", "metadata.json")
minari_file("a truncated episode", lambda data: data[: len(data) // 2])
minari_file("an empty episode", lambda data: b"")
minari_file("a compressed bomb", compressed)
minari_file("a file of 2^60 bytes", lambda data: data[:8] + b"\xff\xff\xff\xff" + struct.pack("<i", 2**31 - 1) + data[16:])
