"""The statistics of a VecNormalize in a file that is no pickle, for `evenroll evaluate … --normalize FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evenroll.adapters.normalization import Normalization, save_normalization
from evenroll.errors import SpecError


def export_normalization(vec_normalize: Any, path: str | Path) -> None:
    """Write what a VecNormalize has learnt of the observations: mean, variance, clip_obs and epsilon.

    vec_normalize  a VecNormalize, or a model that was trained in one
    """
    own = vec_normalize.get_vec_normalize_env() if hasattr(vec_normalize, "get_vec_normalize_env") else vec_normalize
    statistics = getattr(own, "obs_rms", None)
    if statistics is None or not getattr(own, "norm_obs", False):
        raise SpecError("this is no VecNormalize that normalises observations")
    if isinstance(statistics, dict):
        raise SpecError("observations that are dictionaries have no file: pass the VecNormalize itself to evenroll.evaluate")
    mean, var = (np.asarray(x, dtype=np.float64) for x in (statistics.mean, statistics.var))
    save_normalization(Normalization(mean, var, float(own.clip_obs), float(own.epsilon)), path)
