"""Run a notebook's cells one after the other, and store what they print and draw in it.

    python tools/notebook.py examples/newcomer.ipynb

Jupyter is not needed. Text becomes a stream, and every open figure becomes a picture whose text is the title of its axes.
The site shows what is stored (tools/docs_pages.py), and a test compares it with a new run (tests/docs/test_notebook.py).
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Executes the code cells in one namespace, which is returned; their outputs are replaced by the new ones."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {count}", "exec"), names)
        cell["execution_count"] = count
        cell["outputs"] = [*_stream(printed.getvalue()), *(_picture(plt.figure(number)) for number in plt.get_fignums())]
        plt.close("all")
    return names


def _stream(text: str) -> list[dict[str, Any]]:
    return [{"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}] if text else []


def _picture(figure: Any) -> dict[str, Any]:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120, metadata={"Software": None})
    data = {"image/png": base64.b64encode(content.getvalue()).decode(), "text/plain": [figure.axes[0].get_title()]}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def main(path: str) -> None:
    notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    run(notebook)
    Path(path).write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
