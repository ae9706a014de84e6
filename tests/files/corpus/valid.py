"""Valid small files of every kind that is read."""

from __future__ import annotations

import base64
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

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
