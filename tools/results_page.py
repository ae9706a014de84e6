"""The measured parts of docs/results.md, from a run at full size: tables 3 and 4 as ratios, and the verdict on every claim.

    evenroll reproduce all --decide --minutes 60 --out reproduction --json reproduction/outcome.json
    python -m tools.results_page reproduction

What stands between two marks of the page (`<!-- NAME: written by … -->` and `<!-- end of NAME -->`) is replaced. A run of some
targets only replaces their claims, and the tables that it has. The rest of the page is prose, which must be read again after
a run.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
MEASURED, PUBLISHED = "Measured, relative to OS-MC, 95 % interval", "Published, relative to OS-MC"
SHOWN = {"holds": "holds", "does not hold": "**does not hold**", "cannot tell": "*cannot tell*"}


def main(directory: str) -> None:
    run = Path(directory)
    claims = json.loads((run / "outcome.json").read_text(encoding="utf-8"))["claims"]
    text = PAGE.read_text(encoding="utf-8")
    for name in ("table3", "table4"):
        if (run / f"{name}.md").exists():
            text = between(text, name, ratios((run / f"{name}.md").read_text(encoding="utf-8")))
    rows = {**rows_of(text), **{key(claim): row(claim) for claim in claims}}
    PAGE.write_text(between(text, "claims", table_of(rows.values())), encoding="utf-8")
    print(counted(rows.values()))


def between(text: str, name: str, new: str, writer: str = "results_page") -> str:
    """The page with something else between the marks of this name."""
    start, end = f"<!-- {name}: written by tools/{writer}.py -->\n", f"<!-- end of {name} -->"
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.S)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"the page must have the marks of {name} once")
    return pattern.sub(lambda _: f"{start}\n{new}\n\n{end}", text)


def ratios(table: str) -> str:
    """The two tables of ratios of a table that `evenroll reproduce` has written, the published ones last."""
    parts = dict(re.findall(r"^## (.+?)\n\n(.+?)\n(?:\n|\Z)", table, re.M | re.S))
    published = "As published, with the authors’ evaluation policies:"
    return f"{parts[MEASURED].strip()}\n\n{published}\n\n{parts[PUBLISHED].strip()}"


def counted(rows: Iterable[str]) -> str:
    """How many rows of the table have which verdict."""
    found = Counter(cells[3] for cells in map(cells_of, rows))
    holds, fails, open_ = (found[SHOWN[verdict]] for verdict in ("holds", "does not hold", "cannot tell"))
    return f"{holds} hold, {fails} do not, {open_} cannot be told."


def rows_of(page: str) -> dict[tuple[str, str], str]:
    """(target, claim) → row of the table of claims, as the page has it."""
    return {
        (cells[1], cells[2]): line
        for line in page.splitlines()
        if len(cells := cells_of(line)) == 6 and cells[3] in SHOWN.values()
    }


def cells_of(row: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<!\\)\|", row)]


def key(claim: dict[str, Any]) -> tuple[str, str]:
    return claim["target"], cell(claim["text"])


def table_of(rows: Iterable[str]) -> str:
    """The table of claims, with what it comes to."""
    rows = list(rows)
    head = f"{counted(rows)} The page that the run makes has each claim’s criterion."
    return "\n".join([head, "", "| | claim | | numbers |", "|---|---|---|---|", *rows])


def row(claim: dict[str, Any]) -> str:
    """A claim's numbers with the figure's own trials, and what added trials said."""
    numbers = [cell(line) for line in claim["numbers"]]
    if claim.get("note"):
        numbers += [f"*{cell(claim['note'])}*", *(look(added) for added in claim["added"])]
    return f"| {claim['target']} | {cell(claim['text'])} | {SHOWN[claim['verdict']]} | {'<br>'.join(numbers)} |"


def look(added: dict[str, Any]) -> str:
    """The last look at a part that got more trials."""
    trials = " and ".join(f"{n:,}" for n in added["trials"])
    at = f"{added['value']:.3g} [{added['low']:.3g}, {added['high']:.3g}]" if added["value"] is not None else "no interval"
    return f"{cell(added['name'])}: {at} ({100 * added['confidence']:.2f} %), {trials} trials"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    main(*sys.argv[1:])
