"""The table of a comparison, as plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evenroll.study.curve import Curve

RUNS_AWAY = "runs away from the policy"


def header_and_rows(checkpoints: Sequence[int], curves: Sequence[Curve]) -> tuple[list[str], list[list[str]]]:
    """Each method's error half-way and at the end, the ratio to the first method's, and the bias; all relative to v."""
    new = [i for i, steps in enumerate(checkpoints) if steps > 0]
    shown = sorted({new[len(new) // 2], new[-1]})
    header = ["method", *(f"{checkpoints[i]:,} steps" for i in shown), "vs first", "bias"]
    rows = []
    for curve in curves:
        errors = [_with_error(float(curve.mse[i]), float(curve.mse_se[i])) for i in shown]
        first = float(curves[0].mse[-1])
        ratio = float(curve.mse[-1]) / first if first else math.nan
        rows.append([curve.method, *errors, f"× {_significant(ratio)}", f"{curve.bias[-1]:+.1e}"])
    return header, rows


def remarks(curves: Sequence[Curve]) -> list[str]:
    """A line for each method that weighs trajectories, and one for each whose behaviour ran away from the policy."""
    lines = []
    for curve in curves:
        if curve.effective_sample_size is not None and curve.largest_weight is not None:
            size, share = (curve.over_trials(x)[0][-1] for x in (curve.effective_sample_size, curve.largest_weight))
            lines.append(f"{curve.method}: effective sample size {size:.4g}, largest weight {100 * share:.2g} % of all")
        if curve.runaway:
            lines.append(f"{curve.method} {RUNS_AWAY} in {curve.runaway} of {len(curve.estimates)} trials")
    return lines


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first one to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]

    def aligned(cells: Sequence[str]) -> str:
        first, *others = cells
        return "  ".join([first.ljust(widths[0]), *(x.rjust(width) for x, width in zip(others, widths[1:], strict=True))])

    title = aligned(header)
    return "\n".join([title, "─" * len(title), *(aligned(row) for row in rows)])


def _significant(x: float, digits: int = 3) -> str:
    return "–" if math.isnan(x) else f"{x:.{digits}g}"


def _with_error(x: float, error: float) -> str:
    """A number, and its error in per cent where there is one."""
    if not x > 0 or math.isnan(error):
        return _significant(x)
    return f"{x:.2e} ± {100 * error / x:.0f} %"
