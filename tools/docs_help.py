"""A hook of mkdocs: `<!-- help: COMMAND -->` becomes the output of `evenroll COMMAND --help`, so that no page goes stale."""

from __future__ import annotations

import re
from typing import Any

from typer.testing import CliRunner

from evenroll.cli.app import app

COLUMNS = 80  # characters that fit into a code block of the page at a window 1280 pixels wide (tests/docs/test_site.py)


def on_page_markdown(markdown: str, **context: Any) -> str:
    return re.sub(r"<!-- help: (\S*) ?-->", lambda found: _help(found[1]), markdown)


def _help(command: str) -> str:
    arguments = [command] if command else []
    shown = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": str(COLUMNS), "TERM": "dumb", "NO_COLOR": "1"})
    if shown.exit_code:
        raise RuntimeError(f"evenroll {command} --help failed: {shown.output}")
    return f"```text\n{shown.output.strip()}\n```"
