"""The numbers that the paper's authors published: curves at every checkpoint, and tables 3 and 4."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

import numpy as np


@functools.cache
def _published() -> dict[str, Any]:
    return dict(json.loads((resources.files("evenroll.study") / "data" / "published.json").read_text()))


def published_curve(domain: str, method: str) -> dict[str, np.ndarray] | None:
    """A curve's steps, mse, mse_se, median, q25, q75, grad_norm and mostly kl, kl_se. None if there is no curve."""
    curve = _published()["curves"].get(domain, {}).get(method)
    return None if curve is None else {k: np.asarray(v, dtype=float) for k, v in curve.items() if k != "trials"}


def published_final(table: str, method: str, domain: str) -> tuple[float, float] | None:
    """The final MSE and its standard error in table3 or table4. None if there is no entry."""
    entry = _published()["tables"].get(table, {}).get(method, {}).get(domain)
    return None if entry is None else (float(entry[0]), float(entry[1]))
