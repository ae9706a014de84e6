"""The statistics that a policy's observations were normalised with in training, as numbers and not as a pickle.

Stable-Baselines3's VecNormalize shows the policy clip((x − mean)/√(var + ε), ±clip). A policy that was trained so is another
policy on plain observations. `evenroll.sb3.export_normalization` writes the four numbers from a VecNormalize, and its own
pickle (`VecNormalize.save`) is read without running anything in it (files/inert_pickle.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.errors import DataError, SpecError
from evenroll.files.inert_pickle import Call, described, numbers
from evenroll.files.safe_files import read_bytes, read_tensors, tensor_bytes, write_atomically

KEY = "evenroll.normalization"
LARGEST = 64 << 20  # the most bytes of a file
VEC_NORMALIZE = "stable_baselines3.common.vec_env.vec_normalize VecNormalize"
EXPORT = "evenroll.sb3.export_normalization(vec_normalize, 'norm.safetensors')"


@dataclass(frozen=True, eq=False)
class Normalization:
    """Mean and variance of every number of an observation, as training had found them."""

    mean: np.ndarray
    var: np.ndarray
    clip: float
    epsilon: float

    def __post_init__(self) -> None:
        if self.mean.shape != self.var.shape or not np.isfinite(self.mean).all() or not (self.var >= 0.0).all():
            raise DataError("its mean and variance do not fit together")
        if not np.isfinite(self.var).all() or not self.clip > 0.0 or not 0.0 <= self.epsilon < np.inf:
            raise DataError("its variance, clip_obs or epsilon is not possible")

    def of(self, observation: Any) -> np.ndarray:
        """The observation as VecNormalize shows it to a policy."""
        scaled = (np.asarray(observation) - self.mean) / np.sqrt(self.var + self.epsilon)
        return np.asarray(np.clip(scaled, -self.clip, self.clip).astype(np.float32))

    def around(self, env: Any) -> Any:
        """The environment, with its observations normalised."""
        space = env.observation_space
        if not isinstance(env, gym.Env) or not isinstance(space, gym.spaces.Box) or space.shape != self.mean.shape:
            raise SpecError(f"the statistics are of observations of shape {self.mean.shape}, the environment's are {space}")
        new = gym.spaces.Box(-self.clip, self.clip, space.shape, np.float32)
        return gym.wrappers.TransformObservation(env, self.of, new)


def save_normalization(normalization: Normalization, path: str | Path) -> None:
    spec = {"clip": normalization.clip, "epsilon": normalization.epsilon}
    arrays = {"mean": normalization.mean, "var": normalization.var}
    write_atomically(path, tensor_bytes(KEY, spec, arrays))


def load_normalization(path: str | Path) -> Normalization:
    """The statistics in a file that `export_normalization` wrote, or in a pickle of VecNormalize (.pkl)."""
    path = Path(path)
    try:
        if path.suffix == ".safetensors":
            spec, arrays = read_tensors(path, KEY, LARGEST, DataError)
            mean, var = (arrays[name].astype(np.float64) for name in ("mean", "var"))
            return Normalization(mean, var, float(spec["clip"]), float(spec["epsilon"]))
        if path.suffix == ".pkl":
            return _from_pickle(read_bytes(path, LARGEST, DataError))
        raise DataError(f"statistics are read from .pkl (VecNormalize.save) or .safetensors ({EXPORT})")
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path.name or path}: it has no {error}; write it with {EXPORT}") from None
    except DataError as error:
        raise DataError(f"{path.name or path}: {error}") from None


def _from_pickle(pickled: bytes) -> Normalization:
    try:
        found = described(pickled)
        if not isinstance(found, Call) or found.name != VEC_NORMALIZE or not isinstance(found.state, dict):
            raise DataError("it is not a saved VecNormalize")
        state = found.state
        if not state["norm_obs"]:
            raise DataError("its VecNormalize does not normalise observations, so there is nothing to give")
        statistics = state["obs_rms"]
        if isinstance(statistics, dict):
            raise DataError("its observations are dictionaries, which are not read from a file")
        mean, var = (numbers(statistics.state[name]) for name in ("mean", "var"))
        return Normalization(mean, var, float(numbers(state["clip_obs"])), float(numbers(state["epsilon"])))
    except (KeyError, AttributeError, TypeError):
        raise DataError(f"it is a VecNormalize of another version; load it in Python, and {EXPORT}") from None
