"""What many trials of one method measured, checkpoint by checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.study.trials import ESS, GRADIENT, KL, LARGEST_WEIGHT


@dataclass(frozen=True)
class Curve:
    """One method at every checkpoint. Errors are relative to the true value, and missing trials enter no average."""

    method: str
    estimates: np.ndarray  # [trials, checkpoints], relative to the trial's true value; nan if no trajectory has finished
    kl: np.ndarray | None = None  # [trials, checkpoints]
    grad_norm: np.ndarray | None = None
    runaway: int = 0  # trials in which the behaviour ran away from π_e
    effective_sample_size: np.ndarray | None = None  # [trials, checkpoints], where trajectories are weighted
    largest_weight: np.ndarray | None = None

    @classmethod
    def of(cls, name: str, columns: Sequence[str], values: np.ndarray, runaway: int) -> Curve:
        """The curve of the first column of `values` [trials, columns, checkpoints], with the sampling errors if any."""
        extras = [values[:, columns.index(c)] if c in columns else None for c in (KL, GRADIENT, ESS, LARGEST_WEIGHT)]
        return cls(name, values[:, 0], extras[0], extras[1], runaway, extras[2], extras[3])

    @property
    def squared(self) -> np.ndarray:
        """Squared errors [trials, checkpoints]."""
        return np.asarray((self.estimates - 1.0) ** 2)

    @property
    def missing(self) -> np.ndarray:
        """How many trials have no estimate, at every checkpoint."""
        return np.asarray(np.isnan(self.estimates).sum(axis=0))

    def _over_trials(self, statistic: Callable[[np.ndarray], float], values: np.ndarray) -> np.ndarray:
        columns = [column[~np.isnan(column)] for column in values.T]
        return np.array([statistic(column) if len(column) else np.nan for column in columns])

    @property
    def mse(self) -> np.ndarray:
        """The mean squared error over trials, at every checkpoint."""
        return self._over_trials(lambda x: float(x.mean()), self.squared)

    @property
    def mse_se(self) -> np.ndarray:
        """One standard error of the mean squared error."""
        return self._over_trials(_standard_error, self.squared)

    def over_trials(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean of `values` [trials, checkpoints] over trials and its standard error, at every checkpoint."""
        return self._over_trials(lambda x: float(x.mean()), values), self._over_trials(_standard_error, values)

    @property
    def bias(self) -> np.ndarray:
        """The mean error over trials, at every checkpoint."""
        return self._over_trials(lambda x: float(x.mean()), self.estimates - 1.0)

    def quantile(self, q: float) -> np.ndarray:
        """A quantile of the squared errors over trials, at every checkpoint."""
        return self._over_trials(lambda x: float(np.quantile(x, q)), self.squared)

    def _mean_or_null(self, values: np.ndarray | None) -> list[float | None]:
        if values is None:
            return [None] * self.estimates.shape[1]
        return finite_list(self._over_trials(lambda x: float(x.mean()), values))

    def to_json(self) -> dict[str, Any]:
        """The statistics above as plain lists. What could not be computed is None."""
        return {
            "method": self.method,
            "mse": finite_list(self.mse),
            "mse_se": finite_list(self.mse_se),
            "median": finite_list(self.quantile(0.5)),
            "q25": finite_list(self.quantile(0.25)),
            "q75": finite_list(self.quantile(0.75)),
            "bias": finite_list(self.bias),
            "missing": [int(x) for x in self.missing],
            "runaway": self.runaway,
            "kl": self._mean_or_null(self.kl),
            "grad_norm": self._mean_or_null(self.grad_norm),
            "effective_sample_size": self._mean_or_null(self.effective_sample_size),
            "largest_weight": self._mean_or_null(self.largest_weight),
        }


def _standard_error(x: np.ndarray) -> float:
    return float(x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else math.nan


def finite_or_none(x: float) -> float | None:
    """A number as JSON can hold it."""
    return float(x) if math.isfinite(x) else None


def finite_list(values: np.ndarray) -> list[float | None]:
    """Numbers as JSON can hold them."""
    return [finite_or_none(float(x)) for x in values]
