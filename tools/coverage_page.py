"""The tables of coverage in docs/experiments-intervals.md: runs them, one domain and sampler after another, and writes them.

    python -m tools.coverage_page runs              # 12 calls of `evenroll coverage`; some hours on two cores
    python -m tools.coverage_page runs --only cartpole:auto
    python -m tools.coverage_page docs/data/coverage    # the tables again, from the rows that the page was written from

Each call leaves its rows in a file of the directory, and a file that is there is not made again. The tables are written when
all files are there, between the marks of the page, as by tools/results_page.py.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.results_page import between

PAGE = Path(__file__).parents[1] / "docs" / "experiments-intervals.md"
NETWORKS, TABLES, SAMPLERS = ("cartpole", "cartpole-continuous"), ("bandit", "gridworld"), ("auto", "ros")
SHORT, LONG = [31, 64, 128], [512]


def calls(domain: str) -> list[tuple[list[int], int]]:
    """(episodes, repeats) of the calls: the networks' longest runs have fewer repeats."""
    return [(SHORT, 500), (LONG, 400)] if domain in NETWORKS else [([*SHORT, *LONG], 500)]


def run(directory: Path, domain: str, sampler: str) -> list[dict[str, Any]]:
    rows = []
    for episodes, repeats in calls(domain):
        path = directory / f"{domain}-{sampler}-{episodes[-1]}.json"
        if not path.exists():
            options = [word for n in episodes for word in ("--episodes", str(n))]
            command = ["coverage", domain, "--sampler", sampler, *options, "--repeats", str(repeats), "--json", str(path)]
            subprocess.run([sys.executable, "-m", "evenroll", *command], check=True)
        rows += json.loads(path.read_text(encoding="utf-8"))["rows"]
    return rows


def line(row: dict[str, Any]) -> str:
    cells = (
        row["domain"],
        row["method"],
        f"{row['episodes']:g}",
        f"{row['coverage']:.3f} [{row['coverage_low']:.3f}, {row['coverage_high']:.3f}]",
        f"{row['oracle_ratio']:.2f}",
        f"{times(row['says'])}, {times(row['worth'])} ×",
        f"{row['ratio']:.3f} ± {row['ratio_se']:.3f}",
        f"{row['bias']:+.2f}".replace("-", "−"),
    )
    return "| " + " | ".join(cells) + " |"


def times(worth: float | None) -> str:
    """How many on-policy episodes one is worth; there is no number where the value is known."""
    return "exact" if worth is None else f"{worth:.2g}"


def table(rows: list[dict[str, Any]]) -> str:
    head = "| domain | method | n | coverage | width | says, is | error | bias/std |\n|---|---|---|---|---|---|---|---|\n"
    return head + "\n".join(map(line, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", help="DOMAIN:SAMPLER, and no page is written")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    if given.only:
        run(given.directory, *given.only.split(":"))
        return
    text = PAGE.read_text(encoding="utf-8")
    for name, domains in (("coverage-networks", NETWORKS), ("coverage-tables", TABLES)):
        found = [row for d in domains for s in SAMPLERS for row in run(given.directory, d, s)]
        if domains == TABLES:  # the default estimate alone
            found = [row for row in found if row["method"].endswith("/score")]
        text = between(text, name, table(found), "coverage_page")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
