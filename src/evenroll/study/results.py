"""Trials of blocks put together: curves and ratios of curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenroll.study.blocks import BlockData, Work
from evenroll.study.curve import Curve
from evenroll.study.experiments import Line, Sweep


@dataclass(frozen=True)
class Trialled:
    """All trials of one work."""

    work: Work
    data: BlockData

    @classmethod
    def of(cls, work: Work, parts: list[BlockData]) -> Trialled:
        values, runaway = (np.concatenate(x) for x in ([p.values for p in parts], [p.runaway for p in parts]))
        return cls(work, BlockData(parts[0].columns, parts[0].checkpoints, values, runaway))

    @property
    def steps(self) -> np.ndarray:
        return np.array(self.data.checkpoints, dtype=float)

    def curve(self, name: str, column: str) -> Curve:
        values = self.data.values[:, [self.data.columns.index(column)]]
        return Curve.of(name, (column,), values, int(self.data.runaway.sum()))


@dataclass(frozen=True)
class Ratios:
    """MSE against MSE, setting by setting, with one standard error; nan where both are zero."""

    x: np.ndarray
    ratio: np.ndarray
    se: np.ndarray


class Results:
    """What the trials of some targets came to."""

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
        """MSEs of independent trials, so relative errors add in squares. Both share trials' seeds, not their actions."""
        a, b = (self.found[w].curve("", w.measures[0]) for w in (work, against))
        if not b.mse[-1] > 0.0:
            return np.nan, np.nan
        ratio = a.mse[-1] / b.mse[-1]
        relative = np.hypot(a.mse_se[-1] / a.mse[-1] if a.mse[-1] else 0.0, b.mse_se[-1] / b.mse[-1])
        return float(ratio), float(ratio * relative)
