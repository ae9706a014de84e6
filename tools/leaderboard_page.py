"""The tables and pictures of docs/leaderboard.md, from two runs of the leaderboard.

    evenroll leaderboard --domains bandit,gridworld --trials 200 --out tables
    evenroll leaderboard --domains cartpole,cartpole-continuous --trials 100 --out networks
    python -m tools.leaderboard_page tables networks

What stands between the marks of the page is replaced, as by tools/results_page.py; the words above it must be read again.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tools.results_page import between

DOCS = Path(__file__).parents[1] / "docs"


def main(tables: str, networks: str) -> None:
    parts = []
    for name, directory in (("tables", Path(tables)), ("networks", Path(networks))):
        text = (directory / "leaderboard.md").read_text(encoding="utf-8")
        parts.append(text[text.index("\n## ") :].strip())
        shutil.copyfile(directory / "leaderboard.png", DOCS / "images" / f"leaderboard-{name}.png")
    page = DOCS / "leaderboard.md"
    new = between(page.read_text(encoding="utf-8"), "boards", "\n\n".join(parts), "leaderboard_page")
    page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
