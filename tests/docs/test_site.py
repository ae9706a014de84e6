"""The documentation as a reader meets it: built, opened from disk in a browser, on a desktop and on a phone, light and dark.

Skipped only where mkdocs (`make docs` installs it) or chromium is missing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
DESKTOP, PHONE = 1280, 390
TASKS = ["Evaluate my policy", "Compare two", "Repair my data", "Reproduce the paper", "Extend it", "How it works"]
LENGTH = 400  # visits in a run of the two-action example
TOO_WIDE = """() => [...document.querySelectorAll("pre, pre > code")]
    .filter((block) => block.scrollWidth > block.clientWidth + 1).map((block) => block.textContent.slice(0, 200))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """What `make docs` builds, in a directory of its own, once for all processes that test."""
    for name in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: make docs")
    base = tmp_path_factory.getbasetemp()
    place = (base if worker_id == "master" else base.parent) / "site"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(place)]
    with FileLock(f"{place}.lock"):
        if not (place / "built").exists():
            built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            assert built.returncode == 0, built.stdout + built.stderr
            (place / "built").touch()
    return place


def pages(site: Path) -> list[Path]:
    return sorted(path for path in site.glob("*.html") if path.name != "404.html")


def opened(chrome: Any, width: int, scheme: str = "light", motion: str = "no-preference") -> Any:
    context = chrome.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion=motion)
    return context.new_page()


PICTURES = """() => [...document.querySelectorAll("article img")].filter((image) => image.offsetParent !== null)
    .map((image) => [image.src, image.naturalWidth, getComputedStyle(image).backgroundColor])"""


@pytest.mark.parametrize(("width", "scheme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")])
def test_every_page(site: Path, chrome: Any, width: int, scheme: str) -> None:
    """No page scrolls sideways; on a desktop no code block does either. Nothing is fetched, and no script fails.

    Every picture that a desktop shows was loaded, and is of this scheme, or lies on a white card.
    """
    page, wrong, seen = opened(chrome, width, scheme), [], 0
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
    page.on("request", lambda request: None if request.url.startswith("file:") else wrong.append(f"fetched {request.url}"))
    for path in pages(site):
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wrong.append(f"{path.name} scrolls sideways")
        if width == DESKTOP:
            wrong += [f"{path.name}: too wide: {text}" for text in page.evaluate(TOO_WIDE)]
            for source, across, background in page.evaluate(PICTURES):
                seen += 1
                if across == 0 or not (f"-{scheme}.svg" in source or background == "rgb(255, 255, 255)"):
                    wrong.append(f"{path.name}: {source} is {across} wide, on {background}")
    page.context.close()
    assert not wrong, "\n".join(wrong)
    assert seen >= 6 or width == PHONE


def test_search_works_from_disk(site: Path, chrome: Any) -> None:
    page = opened(chrome, DESKTOP)
    page.goto((site / "index.html").as_uri())
    page.click("input[name=query]")
    page.wait_for_function(  # the index has been read
        "!/initializ/i.test(document.querySelector('.md-search-result__meta').textContent)", timeout=60_000
    )
    page.keyboard.type("half-width")
    found = page.locator(".md-search-result__item a").first
    found.wait_for(timeout=60_000)
    assert re.search(r"\.html(\?|#|$)", found.get_attribute("href"))
    page.context.close()


def test_navigation_is_by_task(site: Path, chrome: Any) -> None:
    page = opened(chrome, DESKTOP)
    page.goto((site / "index.html").as_uri())
    assert [text.strip() for text in page.locator(".md-tabs__link").all_inner_texts()] == ["Home", *TASKS]
    for link in page.locator(".tasks a").all():
        assert (site / link.get_attribute("href")).exists()
    page.context.close()


def counts(page: Any, side: str) -> tuple[int, int]:
    text = page.locator(f"[data-read={side}-counts]").inner_text()
    a, b = re.fullmatch(r"A (\d+) · B (\d+)", text).groups()
    return int(a), int(b)


def test_two_action_example(site: Path, chrome: Any) -> None:
    """It plays by itself while it can be seen, and both sides have made as many visits as it says."""
    page = opened(chrome, DESKTOP)
    page.goto((site / "index.html").as_uri())
    page.locator("#two-actions").scroll_into_view_if_needed()
    page.wait_for_function("Number(document.getElementById('two-actions').dataset.visits) > 20", timeout=60_000)
    page.click("[data-do=play]")  # pause
    visits = int(page.locator("#two-actions").get_attribute("data-visits"))
    assert sum(counts(page, "policy")) == sum(counts(page, "balanced")) == visits
    page.context.close()


def test_two_action_example_without_motion(site: Path, chrome: Any) -> None:
    """Who prefers no motion sees whole runs at once. Over many runs one side stays even, the other scatters as √k."""
    page = opened(chrome, DESKTOP, motion="reduce")
    page.goto((site / "index.html").as_uri())
    page.wait_for_selector("#two-actions[data-ready=yes]")
    assert not page.locator("[data-do=play]").is_visible()
    off: dict[str, list[float]] = {"policy": [], "balanced": []}
    for _ in range(50):
        for side, values in off.items():
            a, b = counts(page, side)
            assert a + b == LENGTH
            values.append((a - b) / 2)
        page.click("[data-do=again]")
    assert page.locator("#two-actions .ghost").count() == 12
    assert max(abs(x) for x in off["balanced"]) <= 2.0
    variance = sum(x * x for x in off["policy"]) / 50  # k/4 = 100 in expectation; the runs are always the same ones
    assert 50.0 < variance < 180.0
    page.context.close()


def test_notebook_is_a_page(site: Path) -> None:
    """With all that is stored in it: text and picture."""
    page = (site / "newcomer.html").read_text(encoding="utf-8")
    cells = json.loads((ROOT / "examples" / "newcomer.ipynb").read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    lines = [line for output in outputs for line in output.get("text", [])]
    assert len(lines) >= 6
    for line in lines:
        assert line.strip() in page.replace("&amp;", "&")
    assert (site / "images" / "newcomer-1.png").read_bytes().startswith(b"\x89PNG")
