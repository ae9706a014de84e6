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

from evenroll.adapters.sb3_zip import members
from evenroll.adapters.surroundings import layers
from evenroll.engine import border
from evenroll.errors import DataError, EnvironmentFault, PolicyError, SpecError
from evenroll.files.inert_pickle import Call, described, numbers
from evenroll.files.safe_files import read_bytes, read_json, read_tensors, tensor_bytes, write_atomically

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
        given = border.numbers("the observation", observation, EnvironmentFault)
        if given.shape[max(given.ndim - self.mean.ndim, 0) :] != self.mean.shape:  # NumPy would repeat a single number
            raise EnvironmentFault(f"the observation must have shape {list(self.mean.shape)}, not {list(given.shape)}")
        scaled = (given - self.mean) / np.sqrt(self.var + self.epsilon)
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


# ---- policies that miss their statistics -----------------------------------------------------------------------------

MISSING = (
    "the policy was trained in a VecNormalize, and if that normalised observations, as it does by default, these are not "
    "what the policy knows: give its statistics, with --normalize vecnormalize.pkl on the command line, or in Python "
    "evaluate(VecNormalize.load('vecnormalize.pkl', DummyVecEnv([make])), …) with training = False and norm_reward = False"
)
NORMALISERS = ("VecNormalize", "NormalizeObservation", "TransformObservation")


def is_normalised(env: Any) -> bool:
    """Whether the environment has a wrapper that may be the normalisation that a policy was trained with."""
    return any(type(layer).__name__ in NORMALISERS for layer in layers(env))


def unnormalised(policy: Any) -> tuple[str, ...]:
    """The warning that a policy was trained with a normalisation, for one who has none; nothing where there is no sign.

    In a model of Stable-Baselines3 and in its zip, `_last_original_obs` is the sign: the last observation before it was
    normalised. It is reliable for algorithms that learn on-policy (which have a gae_lambda). Others keep it always.
    """
    if isinstance(policy, str | Path):
        data: Any = _data_of_zip(Path(policy)) if str(policy).endswith(".zip") else {}
    else:
        if hasattr(policy, "get_vec_normalize_env") and policy.get_vec_normalize_env() is not None:
            return (MISSING,)
        data = getattr(policy, "__dict__", {})
    return (MISSING,) if "gae_lambda" in data and data.get("_last_original_obs") is not None else ()


def _data_of_zip(path: Path) -> dict[str, Any]:
    """What a zip of Stable-Baselines3 says of its training; nothing where it cannot be read, which others report."""
    try:
        return read_json(members(path, "data")["data"], "data", DataError)
    except (PolicyError, DataError):
        return {}
