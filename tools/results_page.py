"""The measured parts of docs/results.md, from a run at full size: tables 3 and 4 as ratios, and the verdict on every claim.

    evenroll reproduce all --decide --minutes 60 --out reproduction --json reproduction/outcome.json
    python -m tools.results_page reproduction

What stands between two marks of the page (`<!-- NAME: written by … -->` and `<!-- end of NAME -->`) is replaced. The rest of
the page is prose, which must be read again after a run.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
MEASURED, PUBLISHED = "Measured, relative to OS-MC, 95 % interval", "Published, relative to OS-MC"
SHOWN = {"holds": "holds", "does not hold": "**does not hold**", "cannot tell": "*cannot tell*"}


def main(directory: str) -> None:
    run = Path(directory)
    claims = json.loads((run / "outcome.json").read_text(encoding="utf-8"))["claims"]
    tables = {name: ratios((run / f"{name}.md").read_text(encoding="utf-8")) for name in ("table3", "table4")}
    text = PAGE.read_text(encoding="utf-8")
    for name, found in {**tables, "claims": table_of(claims)}.items():
        text = between(text, name, found)
    PAGE.write_text(text, encoding="utf-8")
    print(counted(claims))


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


def counted(claims: list[dict[str, Any]]) -> str:
    found = Counter(claim["verdict"] for claim in claims)
    return f"{found['holds']} hold, {found['does not hold']} do not, {found['cannot tell']} cannot be told."


def table_of(claims: list[dict[str, Any]]) -> str:
    """A row for every claim: its numbers with the figure's own trials, and what added trials said."""
    rows = [
        f"{counted(claims)} The page that the run makes has each claim’s criterion.",
        "",
        "| | claim | | numbers |",
        "|---|---|---|---|",
    ]
    for claim in claims:
        numbers = [cell(line) for line in claim["numbers"]]
        if "note" in claim:
            numbers += [f"*{cell(claim['note'])}*", *(look(added) for added in claim["added"])]
        rows.append(f"| {claim['target']} | {cell(claim['text'])} | {SHOWN[claim['verdict']]} | {'<br>'.join(numbers)} |")
    return "\n".join(rows)


def look(added: dict[str, Any]) -> str:
    """The last look at a part that got more trials."""
    trials = " and ".join(f"{n:,}" for n in added["trials"])
    at = f"{added['value']:.3g} [{added['low']:.3g}, {added['high']:.3g}]" if added["value"] is not None else "no interval"
    return f"{cell(added['name'])}: {at} ({100 * added['confidence']:.2f} %), {trials} trials"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    main(*sys.argv[1:])
