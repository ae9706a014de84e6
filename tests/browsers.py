"""Pages as a reader meets them: opened in a real browser, on a desktop and on a phone, light and dark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Nothing of the browser's own leaves the machine.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

TEXT_SIZES = """() => {
  const small = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), node = walker.currentNode.parentElement;
    if (!text || ["SCRIPT", "STYLE"].includes(node.tagName) || !node.getClientRects().length) continue;
    const svg = node.closest("svg"), scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    const size = parseFloat(getComputedStyle(node).fontSize) * scale;
    if (size < 11) small.push([text, size]);
  }
  return small;
}"""  # effective pixels, with the scale of the drawing that the text is in


def browser() -> str:
    found = next((p for name in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(name))), None)
    if found is None:
        pytest.skip("no chromium here: apt-get install chromium")
    return found


@contextmanager
def started() -> Iterator[Any]:
    """A browser, in which any number of pages can be opened."""
    executable = browser()
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync.sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield chrome
        chrome.close()


@contextmanager
def opened(chrome: Any, path: Path, width: int, scheme: str, ready: str = "body") -> Iterator[Any]:
    """The page in a new context, which shares nothing with others.

    Whoever opens it learns at the end of errors, and of requests that leave the machine.
    """
    context = chrome.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        page, errors = context.new_page(), []
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.on("request", lambda r: errors.append(r.url) if r.url.startswith("http") else None)
        page.goto(f"file://{path}")
        page.wait_for_selector(ready, timeout=20_000)
        yield page
        assert errors == []
    finally:
        context.close()
