"""Malicious and broken statistics of a VecNormalize: pickles, which are read and not run, and safetensors."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from evenroll.adapters.normalization import KEY, Normalization, save_normalization
from evenroll.policies import save_policy
from tests.files.corpus.registry import BAD, flipped, saved
from tests.files.corpus.valid import DEEP, Bomb, policy


def as_statistics(name: str, make: Callable[[Path], bytes], file: str = "vecnormalize.pkl") -> None:
    def maker(directory: Path, canary: Path) -> list[str]:
        (directory / file).write_bytes(make(canary))
        save_policy(policy(), directory / "good.safetensors")
        options = ["--policy", str(directory / "good.safetensors"), "--normalize", str(directory / file)]
        return ["evaluate", "CartPole-v1", *options, "--episodes", "3"]

    BAD[name] = maker


class Posing:
    """Pickled, it calls itself a VecNormalize whose statistics are whatever it is given."""

    def __init__(self, **state: Any) -> None:
        self.state = state

    def __reduce__(self) -> tuple[Any, ...]:
        from stable_baselines3.common.vec_env import VecNormalize

        return VecNormalize.__new__, (VecNormalize,), self.state


def tensors(spec: Any, **arrays: np.ndarray) -> bytes:
    return save(arrays, {KEY: spec if isinstance(spec, str) else json.dumps(spec)})


GOOD = Normalization(np.zeros(4), np.ones(4), 10.0, 1e-8)
SPEC = {"clip": 10.0, "epsilon": 1e-8}

as_statistics("statistics: pickle that runs a command", lambda canary: pickle.dumps(Bomb(canary)))
as_statistics("statistics: a command inside", lambda canary: pickle.dumps(Posing(norm_obs=True, obs_rms=Bomb(canary))))
as_statistics("statistics: marks without end", lambda canary: b"\x80\x04" + b"(" * (8 << 20) + b".")
as_statistics("statistics: torn pickle", lambda canary: pickle.dumps(Posing(norm_obs=True))[:-5])
as_statistics("statistics: claims 2⁶² bytes", lambda canary: b"\x80\x04\x8e" + (2**62).to_bytes(8, "little") + b".")
as_statistics("statistics: text", lambda canary: DEEP.encode())
for name, raw in (
    ("of another size", tensors(SPEC, mean=np.zeros(3), var=np.ones(3))),
    ("that do not fit", tensors(SPEC, mean=np.zeros(4), var=np.ones(3))),
    ("not finite", tensors(SPEC, mean=np.full(4, np.nan), var=np.ones(4))),
    ("clipped at nothing", tensors({"clip": 0.0, "epsilon": 1e-8}, mean=np.zeros(4), var=np.ones(4))),
    ("without a clip", tensors({"epsilon": 1e-8}, mean=np.zeros(4), var=np.ones(4))),
    ("deep", tensors(DEEP, mean=np.zeros(4), var=np.ones(4))),
    ("changed", flipped(saved(save_normalization, GOOD, ".safetensors"), -3)),
):
    as_statistics(f"statistics: {name}", lambda canary, raw=raw: raw, "norm.safetensors")  # type: ignore[misc]
