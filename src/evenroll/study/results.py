"""Trials of blocks put together: curves, what is drawn of a curve, and ratios of curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenroll.domains.domain import Truth
from evenroll.study.blocks import BlockData, Work
from evenroll.study.curve import Curve
from evenroll.study.targets import Line, Sweep


@dataclass(frozen=True)
class Trialled:
    """All trials of one work, put together from its blocks."""

    work: Work
    data: BlockData

    @classmethod
    def of(cls, work: Work, parts: list[BlockData]) -> Trialled:
        values, runaway = (np.concatenate(x) for x in ([p.values for p in parts], [p.runaway for p in parts]))
        return cls(work, BlockData(parts[0].columns, parts[0].checkpoints, values, runaway))

    def first(self, trials: int) -> Trialled:
        """The first trials only."""
        data = self.data
        return Trialled(self.work, BlockData(data.columns, data.checkpoints, data.values[:trials], data.runaway[:trials]))

    def followed_by(self, parts: list[BlockData]) -> Trialled:
        """These trials and further ones after them."""
        return Trialled.of(self.work, [self.data, *parts])

    @property
    def steps(self) -> np.ndarray:
        return np.array(self.data.checkpoints, dtype=float)

    def curve(self, name: str, column: str) -> Curve:
        values = self.data.values[:, [self.data.columns.index(column)]]
        return Curve.of(name, (column,), values, int(self.data.runaway.sum()))


@dataclass(frozen=True)
class Ratios:
    """MSEs relative to MSEs, setting by setting, with one standard error. Where both are zero there is nan."""

    x: np.ndarray
    ratio: np.ndarray
    se: np.ndarray


class Results:
    """What the trials of some targets came to, by work."""

    def __init__(self, found: dict[Work, Trialled]) -> None:
        self.found = found

    def curve(self, line: Line) -> Curve:
        return self.found[line.work].curve(line.method, line.column)

    def steps(self, line: Line) -> np.ndarray:
        return self.found[line.work].steps

    def ratios(self, sweep: Sweep) -> Ratios:
        ratio, se = np.array([self._ratio(a, b) for a, b in zip(sweep.works, sweep.against, strict=True)]).T
        return Ratios(np.array(sweep.x), ratio, se)

    def _ratio(self, work: Work, against: Work) -> tuple[float, float]:
        """The MSEs come from independent trials, which share seeds but no actions, so relative errors add in squares."""
        a, b = (self.found[w].curve("", w.measures[0]) for w in (work, against))
        if not b.mse[-1] > 0.0:
            return np.nan, np.nan
        ratio = a.mse[-1] / b.mse[-1]
        relative = np.hypot(a.mse_se[-1] / a.mse[-1] if a.mse[-1] else 0.0, b.mse_se[-1] / b.mse[-1])
        return float(ratio), float(ratio * relative)


def statistic(curve: Curve, quantity: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(line, lower and upper edge of its band): the mean ± one standard error, or the median and the quartiles."""
    if quantity == "median":
        return curve.quantile(0.5), curve.quantile(0.25), curve.quantile(0.75)
    if quantity == "mse":
        mean, se = curve.mse, curve.mse_se
    else:
        mean, se = curve.over_trials(curve.estimates)
    return mean, np.maximum(mean - se, mean / 10), mean + se


def on_policy_mse(truth: Truth, steps: np.ndarray) -> np.ndarray:
    """Var[return] / (n v²) with n = steps / T̄ episodes: what on-policy Monte Carlo must show, relative to v²."""
    with np.errstate(divide="ignore"):  # curves with initial data begin at zero steps
        return np.asarray(truth.variance * truth.mean_length / (steps * truth.value**2))
