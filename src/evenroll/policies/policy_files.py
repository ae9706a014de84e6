"""Policy files. A file is one .safetensors whose metadata key `evenroll.policy` says what the tensors mean."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.errors import PolicyError
from evenroll.files.safe_files import check_file, read_tensors, tensor_bytes, write_atomically
from evenroll.policies.base import Policy
from evenroll.policies.mlp import ACTIVATIONS, HEADS, MEANS, MLP, SCALES
from evenroll.policies.tabular import TabularSoftmax

KEY = "evenroll.policy"
LARGEST = 1 << 30  # the most bytes of a file; a policy that must be evaluated every step is never this large


def load_policy(path: str | Path, dtype: Any = np.float32) -> Policy:
    """Read a policy file. A file that is malformed, mis-shaped or not finite is refused with one line."""
    path = Path(path)
    try:
        return _load(path, dtype)
    except PolicyError as error:
        raise PolicyError(f"{path.name}: {error}") from None


def _load(path: Path, dtype: Any) -> Policy:
    _refuse_others(path)
    spec, tensors = read_tensors(path, KEY, LARGEST, PolicyError)
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f":
            raise PolicyError(f"tensor {name} has type {tensor.dtype}, not floating point")
        if not np.isfinite(tensor).all():
            raise PolicyError(f"tensor {name} holds a value that is not finite")
    kind = spec.pop("kind", None)
    if kind == "tabular-softmax":
        _only(spec, ())
        _expect(tensors, {"logits"}, set())
        return TabularSoftmax(tensors["logits"])
    if kind == "mlp":
        return _mlp(spec, tensors, dtype)
    raise PolicyError(f"kind must be tabular-softmax or mlp, not {kind!r}")


def _mlp(spec: dict[str, Any], tensors: dict[str, np.ndarray], dtype: Any) -> MLP:
    choices = {"activation": ACTIVATIONS, "head": HEADS, "mean": MEANS, "scale": SCALES}
    _only(spec, choices)
    for key in ("activation", "head"):
        if key not in spec:
            raise PolicyError(f"an mlp needs {key}: one of {', '.join(choices[key])}")
    for key, value in spec.items():
        if value not in choices[key]:
            raise PolicyError(f"{key} must be one of {', '.join(choices[key])}, not {value!r}")
    if spec["head"] == "softmax" and ({"mean", "scale"} & spec.keys()):
        raise PolicyError("mean and scale belong to a Gaussian head only")
    depth = 0
    while f"layers.{depth}.weight" in tensors:
        depth += 1
    names = {f"layers.{i}.{part}" for i in range(depth) for part in ("weight", "bias")} | {"head.weight", "head.bias"}
    norm = {f"norm.{part}" for part in ("mean", "var", "weight", "bias")}
    if norm & tensors.keys():
        names |= norm
    if spec["head"] == "gaussian" and spec.get("scale") == "log_std":
        names.add("log_std")
    _expect(tensors, names, norm)
    return MLP(
        [(tensors[f"layers.{i}.weight"], tensors[f"layers.{i}.bias"]) for i in range(depth)],
        tensors["head.weight"],
        tensors["head.bias"],
        norm=tuple(tensors[f"norm.{part}"] for part in ("mean", "var", "weight", "bias")) if "norm.mean" in names else None,
        log_std=tensors.get("log_std"),
        dtype=dtype,
        **spec,
    )


def _refuse_others(path: Path) -> None:
    """Raise if the file is somebody else's, with a word on how to use that."""
    check_file(path, LARGEST, PolicyError)
    with path.open("rb") as file:
        start = file.read(4)
    if start == b"PK\x03\x04" and path.suffix == ".zip":
        raise PolicyError(
            "a zip of Stable-Baselines3 is no policy file; make one of it in Python: "
            f'evenroll.save_policy(evenroll.load_sb3("{path.name}"), "{path.stem}.safetensors")'
        )
    if start == b"PK\x03\x04" or path.suffix in (".pt", ".pth", ".ckpt", ".pkl", ".pickle"):
        raise PolicyError(
            "a file of torch or a pickle holds no policy without the code of its class: load it in Python and pass the "
            "module: evenroll.evaluate(env, module), or name a function that makes it: --policy my_module:make_policy"
        )


def _only(spec: dict[str, Any], known: Any) -> None:
    for key in spec:
        if key not in known:
            raise PolicyError(f"unknown entry {key!r} in {KEY}")


def _expect(tensors: dict[str, np.ndarray], names: set[str], optional: set[str]) -> None:
    missing, extra = names - tensors.keys(), tensors.keys() - names
    if missing:
        raise PolicyError(f"tensor {min(missing)} is missing")
    if extra:
        raise PolicyError(f"tensor {min(extra)} is not expected here")


def policy_bytes(policy: Policy) -> bytes:
    """The policy as the bytes of its file."""
    if isinstance(policy, TabularSoftmax):
        if not np.isfinite(policy.logits).all():
            raise PolicyError("a policy with actions it never takes (logit −inf) cannot be saved")
        spec: dict[str, str] = {"kind": "tabular-softmax"}
        tensors = {"logits": policy.logits}
    elif isinstance(policy, MLP):
        spec = {"kind": "mlp", "activation": policy.activation, "head": policy.head}
        if policy.head == "gaussian":
            spec |= {"mean": policy.mean, "scale": policy.scale}
        tensors = {"head.weight": policy.head_weight, "head.bias": policy.head_bias}
        for i, (weight, bias) in enumerate(policy.layers):
            tensors |= {f"layers.{i}.weight": weight, f"layers.{i}.bias": bias}
        if policy.norm is not None:
            tensors |= dict(zip(("norm.mean", "norm.var", "norm.weight", "norm.bias"), policy.norm, strict=True))
        if policy.log_std is not None and policy.scale == "log_std":
            tensors["log_std"] = policy.log_std
        tensors = {name: tensor.astype(policy.dtype) for name, tensor in tensors.items()}
    else:
        raise PolicyError(f"no file format for a policy of type {type(policy).__name__}")
    return tensor_bytes(KEY, spec, tensors)


def save_policy(policy: Policy, path: str | Path) -> None:
    write_atomically(path, policy_bytes(policy))


def policy_digest(policy: Policy) -> str:
    """A hash of everything that determines the policy's behaviour.

    A table's probabilities follow from its logits, and in their last bits from the processor: they are left out, so that
    the same policy has the same hash everywhere.
    """
    digest = hashlib.sha256()
    for array in (
        (policy.dims, policy.theta) if isinstance(policy, TabularSoftmax) else (policy.dims, policy.theta, policy.aux)
    ):
        digest.update(str(array.dtype).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
