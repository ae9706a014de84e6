"""A Stable-Baselines3 zip, read without executing anything in it: tensors and plain JSON only, never its pickles.

The member `data` is JSON. It describes every object as text beside a pickled copy (":serialized:"), which is not looked at.
The member `policy.pth` holds tensors. The two say all there is to know of an `MlpPolicy` of PPO or A2C. A model that would
need code is refused, and so is a zip that would unpack to more than it should.
"""

from __future__ import annotations

import io
import itertools
import mmap
import pickletools
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.errors import PolicyError
from evenroll.files.safe_files import check_file, read_json
from evenroll.policies.mlp import MLP
from evenroll.text.numbers import first_line

# Limits on what a zip may make us read.
LARGEST = 256 << 20  # the most bytes of the zip, and of the tensors when unpacked
JSON_LARGEST = 8 << 20  # the most bytes of `data`
RATIO, SMALL = 16, 1 << 20  # a member may unpack to 16 times its size in the zip, or to 1 MiB if that is more
MOST_MEMBERS = 1000  # the most members of the zip
MEMBER = b"PK\x01\x02"  # what every entry of a zip's directory begins with
DESCRIPTION = 1 << 20  # the most bytes of the description of the tensors
UNREADABLE = (
    zipfile.BadZipFile,
    NotImplementedError,
    KeyError,
    ValueError,
    OSError,
    RuntimeError,
    EOFError,
    zlib.error,
    IndexError,
)
# What the description of named tensors may refer to. Anything else would have to be executed.
GLOBALS = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch FloatStorage",
    "torch DoubleStorage",
}
# The operations of which torch makes the description of named tensors.
OPERATIONS = {
    "PROTO", "FRAME", "STOP", "MARK", "GLOBAL", "REDUCE", "BUILD", "BINPERSID", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET",
    "LONG_BINGET", "EMPTY_DICT", "EMPTY_TUPLE", "EMPTY_LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "SETITEM", "SETITEMS",
    "APPEND", "APPENDS", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE",
    "SHORT_BINUNICODE",
}  # fmt: skip
MOST_STEPS, DEEPEST = 100_000, 20  # operations of a description, and how deep it may be nested
IN_PYTHON = (
    "load it in Python: model = stable_baselines3.PPO.load(path) or A2C.load(path), then evenroll.evaluate(env, model)"
)
# The models whose policies live in these modules.
ALGORITHMS = {
    "stable_baselines3.sac.": "stable_baselines3.SAC",
    "stable_baselines3.td3.": "stable_baselines3.TD3 or DDPG",
    "stable_baselines3.dqn.": "stable_baselines3.DQN",
    "sb3_contrib.tqc.": "sb3_contrib.TQC",
    "sb3_contrib.qrdqn.": "sb3_contrib.QRDQN",
    "sb3_contrib.crossq.": "sb3_contrib.CrossQ",
    "sb3_contrib.ars.": "sb3_contrib.ARS",
    "sb3_contrib.common.maskable.": "sb3_contrib.MaskablePPO",
    "sb3_contrib.common.recurrent.": "sb3_contrib.RecurrentPPO",
}
HARMLESS = {"net_arch", "activation_fn", "log_std_init", "ortho_init", "optimizer_class", "optimizer_kwargs", ":type:",
            ":serialized:", "normalize_images"}  # fmt: skip
ACTIVATIONS = {"torch.nn.modules.activation.Tanh": "tanh", "torch.nn.modules.activation.ReLU": "relu"}
SIZES = "gymnasium.spaces.multi_discrete.MultiDiscrete"


def load_sb3(path: str | Path) -> Any:
    """The policy of a saved model: an MLP of ours or, for multi-discrete actions, a torch module that gives logits."""
    path = Path(path)
    try:
        return _load(path)
    except PolicyError as error:
        raise PolicyError(f"{path.name}: {error}") from None


def members(path: Path, *names: str) -> dict[str, bytes]:
    """The bytes of some members of a zip, after all its limits were checked."""
    check_file(path, LARGEST, PolicyError)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
            _check_directory(raw)
        with zipfile.ZipFile(path) as archive:
            _check_members(archive)
            return {name: _member(archive, name, JSON_LARGEST if name == "data" else LARGEST) for name in names}
    except UNREADABLE as error:
        raise PolicyError(f"not a Stable-Baselines3 zip ({first_line(error)})") from None


def _load(path: Path) -> Any:
    read = members(path, "data", "policy.pth")
    tensors, data = read["policy.pth"], read_json(read["data"], "not a Stable-Baselines3 zip: its data", PolicyError)
    _check_class(data)
    spaces = [_text(data.get(name), ":type:") for name in ("observation_space", "action_space")]
    if "gymnasium.spaces.box.Box" not in spaces[0] or _text(data.get("observation_space"), "dtype") == "uint8":
        raise PolicyError(f"its observations ({spaces[0] or 'unknown'}) need Stable-Baselines3's own encoding: {IN_PYTHON}")
    return _build(_activation(data), _tensors(tensors), SIZES in spaces[1])


def _check_directory(raw: bytes | mmap.mmap) -> None:
    """Raise if the directory of a zip may be longer than a model's. It is counted without being read.

    Reading it would make an object of every entry, and a directory of empty entries packs a hundred to one.
    """
    if sum(1 for _ in itertools.islice(re.finditer(re.escape(MEMBER), raw), MOST_MEMBERS + 1)) > MOST_MEMBERS:
        raise PolicyError("not a Stable-Baselines3 zip (too many members, or two of one name)")


def _check_members(archive: zipfile.ZipFile) -> None:
    """Raise if the members are too many, or if a name in it is doubled or leads out of the zip's directory.

    Nothing is ever written to disk, but a zip with such a name is no model.
    """
    members = archive.infolist()
    if len(members) > MOST_MEMBERS or len({m.filename for m in members}) < len(members):
        raise PolicyError("not a Stable-Baselines3 zip (too many members, or two of one name)")
    for member in members:
        if member.filename.startswith(("/", "\\")) or ".." in member.filename.replace("\\", "/").split("/"):
            raise PolicyError("not a Stable-Baselines3 zip (a name in it leads out of it)")


def _member(archive: zipfile.ZipFile, name: str, largest: int) -> bytes:
    """A member's bytes. No more bytes come out of it than its header says."""
    about = archive.getinfo(name)
    if about.file_size > largest or about.file_size > max(RATIO * about.compress_size, SMALL):
        raise PolicyError(f"{name} is larger than {largest >> 20} MiB, or than {RATIO} times its packed size, when unpacked")
    if about.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise PolicyError(f"{name} is compressed in a way that Stable-Baselines3 does not use")
    return archive.read(about)


def _text(entry: Any, key: str) -> str:
    return str(entry.get(key, "")) if isinstance(entry, dict) else ""


def _check_class(data: dict[str, Any]) -> None:
    kind = data.get("policy_class")
    made = _text(kind, "__init__").startswith("<function ActorCriticPolicy.__init__")
    module = _text(kind, "__module__")
    model = next((name for start, name in ALGORITHMS.items() if module.startswith(start)), None)
    if model is not None:
        raise PolicyError(
            f"it is a model of {model}, whose zip is not read: load it in Python: model = {model}.load(path), then "
            "evenroll.evaluate(env, model)"
        )
    if module != "stable_baselines3.common.policies" or not made:
        raise PolicyError(
            f"its policy is not MlpPolicy of PPO or A2C, and the code of others would have to be run: {IN_PYTHON}"
        )
    if data.get("use_sde"):
        raise PolicyError(f"its state-dependent exploration (use_sde) needs Stable-Baselines3 itself: {IN_PYTHON}")
    settings = data.get("policy_kwargs")
    unknown = set(settings if isinstance(settings, dict) else {"policy_kwargs": None}) - HARMLESS
    if unknown:
        raise PolicyError(f"its policy was made with {min(unknown)}, which needs code to be run: {IN_PYTHON}")


def _activation(data: dict[str, Any]) -> str:
    text = _text(data["policy_kwargs"], "activation_fn") or "<class 'torch.nn.modules.activation.Tanh'>"
    name = text.removeprefix("<class '").removesuffix("'>")
    if name not in ACTIVATIONS:
        raise PolicyError(f"activation {name.rpartition('.')[2]} is not tanh or ReLU: {IN_PYTHON}")
    return ACTIVATIONS[name]


def _tensors(data: bytes) -> dict[str, np.ndarray]:
    try:
        from evenroll.adapters.torch_copies import load_tensors
    except ImportError:
        raise PolicyError("reading a Stable-Baselines3 zip needs torch: pip install 'evenroll[torch]'") from None
    try:
        _check_directory(data)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_members(archive)
            if any(m.compress_type != zipfile.ZIP_STORED or m.file_size > len(data) for m in archive.infolist()):
                raise PolicyError("policy.pth is compressed, which torch does not do")
            (described,) = (m for m in archive.infolist() if m.filename.endswith("/data.pkl"))
            if described.file_size > DESCRIPTION:
                raise PolicyError(f"its tensors cannot be read (described in more than {DESCRIPTION >> 20} MiB)")
            _check_globals(archive.read(described))
    except UNREADABLE as error:
        raise PolicyError(f"its tensors cannot be read ({first_line(error)})") from None
    tensors = load_tensors(data)
    for name in tensors:
        if not name.startswith(
            ("mlp_extractor.policy_net.", "mlp_extractor.value_net.", "action_net.", "value_net.", "log_std")
        ):
            raise PolicyError(f"tensor {name} belongs to a network that needs code to be run: {IN_PYTHON}")
    return tensors


def _check_globals(pickled: bytes) -> None:
    """Raise if the description of the tensors would call anything unknown, or does what torch does not do.

    It is found out without calling anything. torch's own reader allows some more.
    """
    open_marks = 0
    for steps, (code, argument, _) in enumerate(pickletools.genops(pickled)):
        if code.name not in OPERATIONS or steps > MOST_STEPS:
            raise PolicyError("its tensors cannot be read (they are described by code)")
        if code.name == "GLOBAL" and argument not in GLOBALS:
            raise PolicyError(f"its tensors cannot be read (they refer to {argument})")
        open_marks += 1 if code.name == "MARK" else -1 if code.name in ("TUPLE", "SETITEMS", "APPENDS") else 0
        if open_marks > DEEPEST:
            raise PolicyError("its tensors cannot be read (their description is nested too deeply)")


def _build(activation: str, tensors: dict[str, np.ndarray], several: bool) -> Any:
    layers, at = [], 0
    while f"mlp_extractor.policy_net.{at}.weight" in tensors:
        prefix = f"mlp_extractor.policy_net.{at}"
        layers.append((tensors[f"{prefix}.weight"], tensors.get(f"{prefix}.bias", np.zeros(0))))
        at += 2
    if sum(name.startswith("mlp_extractor.policy_net.") for name in tensors) != 2 * len(layers):
        raise PolicyError("its layers are not linear ones with an activation in between")
    if not {"action_net.weight", "action_net.bias"} <= tensors.keys():
        raise PolicyError("tensor action_net.weight or action_net.bias is missing")
    head = tensors["action_net.weight"], tensors["action_net.bias"]
    if several:
        MLP(layers, *head, activation=activation)  # raises if the tensors do not fit together
        from evenroll.adapters.torch_copies import sequential

        return sequential([*layers, head], activation)
    log_std = tensors.get("log_std")
    if log_std is None:
        return MLP(layers, *head, activation=activation)
    return MLP(layers, *head, activation=activation, head="gaussian", mean="identity", scale="log_std", log_std=log_std)
