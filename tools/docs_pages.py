"""A hook of mkdocs: two pages of the site live elsewhere in the repository, and become pages when it is built.

newcomer.md       examples/newcomer.ipynb, with the outputs that are stored in it (`python tools/notebook.py` stores them)
contributing.md   CONTRIBUTING.md, whose links lead from the repository's root

It also lays out what Markdown cannot: fields in docstrings become rows, and short code is kept on one line.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "newcomer.ipynb"
FIELD = re.compile(r"(?P<names>[A-Za-z_]\w*(?:, \w+)*) {2,}(?P<text>\S.*)")  # a docstring's line `name   what it is`
SECOND = re.compile(r" {4,}(?=[A-Za-z_]\w* {2,}\S)")  # where another field begins on the same line


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    page, pictures = notebook_page(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    files.append(File.generated(config, "newcomer.md", content=page))
    for name, content in pictures.items():
        files.append(File.generated(config, name, content=content))
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "contributing.md", content=from_the_root(contributing)))
    return files


def notebook_page(notebook: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    """(Markdown, pictures by name) of a notebook: text as it is, code in a fence, and below it what it printed and drew."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                parts.append("```{ .text .output }\n" + "".join(output["text"]).rstrip() + "\n```")
            else:
                data = output["data"]
                name = f"images/newcomer-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![{''.join(data['text/plain'])}]({name}){{ .card }}")
    parts.append("This page is the notebook `examples/newcomer.ipynb`, with the outputs that are stored in it.")
    return "\n\n".join(parts) + "\n", pictures


def from_the_root(markdown: str) -> str:
    """Links to docs/x.md lead to x.md; those to other files of the repository, which the site does not have, become text."""

    def moved(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        if target.startswith(("http:", "https:", "#")):
            return found[0]
        return f"[{text}]({target.removeprefix('docs/')})" if target.startswith("docs/") else text

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", moved, markdown)


def on_page_content(html: str, *, page: Any, **context: Any) -> str:
    if page.file.src_uri == "api.md":
        html = re.sub(r"<p>(.*?)</p>", lambda found: fields(found[0], found[1]), html, flags=re.S)
    return re.sub(r"<code>([^<>\n]{1,28})</code>", r'<code class="short">\1</code>', html)


def fields(paragraph: str, text: str) -> str:
    """A docstring's paragraph of fields as a table; other lines in it go on with the field above. Others stay."""
    rows: list[list[str]] = []
    before: list[str] = []
    for line in (part for whole in text.split("\n") for part in SECOND.split(whole)):
        found = FIELD.fullmatch(line)
        if found:
            rows.append([found["names"], found["text"]])
        elif rows:
            rows[-1][1] += f" {line.strip()}"
        else:
            before.append(line)
    if not rows:
        return paragraph
    first = f"<p>{chr(10).join(before)}</p>" if before else ""
    return first + '<table class="fields">' + "".join(f"<tr><td>{a}</td><td>{b}</td></tr>" for a, b in rows) + "</table>"
