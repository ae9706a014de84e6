"""How skewed values are: where they are, a mean and its spread mislead together (intervals/stopping.py)."""

from __future__ import annotations

import math

import numpy as np


def skewness(values: np.ndarray) -> float:
    """The skewness of a distribution, from values of it (Fisher and Pearson, adjusted for few values); 0 without spread."""
    n, apart = len(values), values - values.mean()
    variance = float(np.square(apart).mean())
    if n < 3 or not 0.0 < variance < math.inf:
        return 0.0
    return float(((apart / math.sqrt(variance)) ** 3).mean()) * math.sqrt(n * (n - 1)) / (n - 2)
