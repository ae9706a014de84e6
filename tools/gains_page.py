"""The tables of docs/gains.md, from the records of tools/how_good.py.

    python tools/how_good.py --episodes 8 16 32 64 --repeats 200 --workers 2 --json docs/data/how_good.json
    python -m tools.gains_page docs/data/how_good.json

What stands between the marks of the page is replaced, as by tools/results_page.py; the words around it must be read again.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.results_page import between

PAGE = Path(__file__).parents[1] / "docs" / "gains.md"
Records = dict[tuple[str, int, str], dict[str, Any]]  # by task, episodes and estimate


def signed(number: float) -> str:
    return f"{number:+.2f}".replace("-", "−")


def table(names: list[str], columns: dict[str, list[str]]) -> str:
    """A row for each name; the columns have their headings."""
    lines = [["", *columns], ["---"] * (len(columns) + 1), *map(list, zip(names, *columns.values(), strict=True))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def times(worth: float | None) -> str:
    """How many on-policy episodes one is worth; none where the error of the truth leaves no error to speak of."""
    return "–" if worth is None else f"{worth:.2g}"


def mean_of_ratios(records: Records, tasks: list[str], episodes: int, estimate: str) -> str:
    """The geometric mean over the tasks, ± its standard error: that of the mean of the logarithms."""
    found = [records[task, episodes, estimate] for task in tasks]
    mean = math.exp(sum(math.log(record["ratio"]) for record in found) / len(found))
    error = mean / len(found) * math.sqrt(sum((record["ratio_se"] / record["ratio"]) ** 2 for record in found))
    return f"{mean:.3f} ± {error:.3f}"


def tables(records: Records, tasks: list[str], sizes: list[int]) -> dict[str, str]:
    """What stands between the marks, by their names."""

    def by_size(cell: Callable[[dict[str, Any]], str]) -> dict[str, list[str]]:
        return {f"{n} episodes": [cell(records[task, n, "score"]) for task in tasks] for n in sizes}

    errors = by_size(lambda r: f"{r['ratio']:.3f} ± {r['ratio_se']:.3f}")
    for n, column in zip(sizes, errors.values(), strict=True):
        column.append(f"**{mean_of_ratios(records, tasks, n, 'score')}**")
        column.append(mean_of_ratios(records, tasks, n, "mc"))
    errors["plain mean, 64"] = [*(f"{records[task, 64, 'mc']['ratio']:.3f}" for task in tasks), "", ""]
    errors["floor"] = [*(f"{records[task, 64, 'mc']['floor']:.2f}" for task in tasks), "", ""]
    return {
        "errors": table([*tasks, "geometric mean", "that of the plain means"], errors),
        "intervals": table(tasks, by_size(lambda r: f"{r['coverage']:.3f} ({r['coverage_of_t']:.3f}), {r['width']:.2f}")),
        "worth": table(tasks, by_size(lambda r: f"{times(r['says'])}, {times(r['is'])} ×")),
        "bias": table(tasks, by_size(lambda r: f"{signed(r['bias'])} ± {r['bias_se']:.2f}")),
    }


def main(*files: str) -> None:
    found = [record for file in files for record in json.loads(Path(file).read_text(encoding="utf-8"))]
    records: Records = {(record["task"], record["episodes"], record["estimate"]): record for record in found}
    tasks, sizes = list(dict.fromkeys(record["task"] for record in found)), sorted({n for _, n, _ in records})
    text = PAGE.read_text(encoding="utf-8")
    for name, made in tables(records, tasks, sizes).items():
        text = between(text, name, made, "gains_page")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
