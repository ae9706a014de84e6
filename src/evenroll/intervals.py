"""Intervals for independent trajectories."""

from __future__ import annotations

import numpy as np

from evenroll.errors import NoEstimate


def student_t(values: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Mean ± t · s/√n: for independent values only. Returns of ROS-like samplers are not."""
    from scipy import stats

    n = len(values)
    if n < 2:
        raise NoEstimate("an interval needs at least 2 finished trajectories")
    half = float(stats.t.ppf(0.5 + confidence / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return float(values.mean()) - half, float(values.mean()) + half
