"""docs/figures.md lists where every number comes from: nothing measured is left out, and its commands are accepted."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from evenroll.cli.app import app
from tests.docs.test_readme import VALUES
from tools import figures

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "figures.md")]
GIVEN = figures.data()
ENTRIES = GIVEN["figures"]
PLACES = {place for entry in ENTRIES for place, _ in entry["places"]}
# What makes a section look measured: ± or an interval, a decimal with two places, a time, a size, a share.
MEASURED = re.compile(
    r"\d ± \d|\[−?\d[\d.]*, −?\d[\d.]*\]|(?<![\w.])\d+\.\d\d+(?![\w.])|(?<![\w.-])\d[\d.]* %"
    r"|(?<![\w.-])\d[\d.,]* (?:s|ms|µs|ns|minutes|core-minutes|MB|GB|times)\b"
)
ids = pytest.mark.parametrize("entry", ENTRIES, ids=[f"{entry['places'][0][0]}-{i}" for i, entry in enumerate(ENTRIES)])


def plain(text: str) -> str:
    """Without what is no prose: blocks of code, commands, links' targets. What a command printed stays."""
    text = re.sub(r"^```(?!\{ \.text \.output).*?^```", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`|\]\([^)]*\)|<[^>]*>", "", text)


@pytest.mark.parametrize("page", PAGES)
def test_what_looks_measured_is_listed(page: str) -> None:
    """Each section with such numbers has an entry, or a reason why there is nothing measured in it."""
    listed = PLACES | set(GIVEN["nothing_measured"])
    found = {
        f"{page}#{anchor}": MEASURED.findall(plain(text))[:5]
        for anchor, (_, text) in figures.sections(figures.file_of(page)).items()
        if MEASURED.search(plain(text)) or "](images/" in text
    }
    missing = {place: numbers for place, numbers in found.items() if place not in listed}
    assert not missing, f"in docs/data/figures.toml there is nothing about {missing}"


def test_places_exist() -> None:
    for place in PLACES | set(GIVEN["nothing_measured"]):
        page, _, anchor = place.partition("#")
        if page == "newcomer.md":  # made of the notebook when the site is built
            continue
        assert anchor in figures.sections(figures.file_of(page)), place


def test_every_picture_is_listed() -> None:
    listed = [name for entry in ENTRIES for name in entry.get("pictures", [])]
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs" / "images").iterdir())


@ids
def test_entry(entry: dict[str, Any]) -> None:
    """It has a command, or says why it has none; and what it must not say is left to git."""
    assert set(entry) <= {"command", "run", "places", "pictures", "speed", "status", "note"}
    assert set(entry["run"]) <= {"commit", "written", "date", "time", "cores"}
    assert ("commit" in entry["run"]) != ("written" in entry["run"])
    if "status" in entry:
        assert entry["status"] in (figures.NEVER, figures.UNKNOWN)
        assert entry["note"]
    assert "status" in entry or figures.commands(entry)
    assert entry.get("status") != figures.UNKNOWN or not figures.commands(entry)
    for command in figures.commands(entry):
        accepted(shlex.split(command))


def accepted(words: list[str]) -> None:
    options = [word for word in words if word.startswith("--")]
    if words[0] == "evenroll":
        group = typer.main.get_command(app)
        given = [VALUES.get(word, word) for word in words[2:]]
        group.commands[words[1]].make_context(words[1], given, resilient_parsing=False)
    elif words[0] == "python":
        script = words[2].replace(".", "/") if words[1] == "-m" else words[1]
        path = next(p for p in (ROOT / script, ROOT / f"{script}.py", ROOT / script / "__main__.py") if p.is_file())
        source = path.read_text(encoding="utf-8")
        assert all(f'"{option}"' in source for option in options), f"{path.name} has not all of {options}"
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    else:
        assert words[0] == "pytest"
        assert all((ROOT / word).exists() for word in words[1:] if word.startswith("tests/"))


@ids
def test_command_stands_beside_its_numbers(entry: dict[str, Any]) -> None:
    """A page names the program that made its numbers, or links to a page that does."""
    programs = [program(shlex.split(command)) for command in figures.commands(entry)]
    if not programs:
        return
    pages = {place.partition("#")[0] for place, _ in entry["places"]} - {"newcomer.md"}
    texts = {page: figures.file_of(page).read_text(encoding="utf-8") for page in pages}
    naming = {page for page, text in texts.items() if any(name in text for names in programs for name in names)}
    elsewhere = [*naming, "newcomer.md", "newcomer.ipynb"]  # the notebook runs itself
    for page, text in texts.items():
        linked = [other for other in elsewhere if f"{other})" in text or f"{other}#" in text]
        assert page in naming or linked, f"{page} names none of {programs}"


def program(words: list[str]) -> list[str]:
    """How a page may name it."""
    if words[0] == "evenroll":
        return [f"evenroll {words[1]}", f"`{words[1]} "]
    if words[0] == "python":
        path = words[2].replace(".", "/") if words[1] == "-m" else words[1].removesuffix(".py")
        return [path, path.replace("/", "."), f"make {Path(path).name}"]
    return [" ".join(words[:2]).removesuffix(" -m"), "EVENROLL_GUARD=after pytest", *words[1:2]]


def test_page_is_what_the_tool_makes() -> None:
    commits = {GIVEN["released"], *GIVEN["same_numbers"], *(figures.commit_of(entry) for entry in ENTRIES)}
    try:
        asked = "\n".join(commits).encode()
        known = subprocess.run(["git", "cat-file", "--batch-check"], cwd=ROOT, input=asked, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not in a git repository")
    if b"missing" in known.stdout and figures.git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("the repository does not have its whole history")
    assert b"missing" not in known.stdout, known.stdout.decode()
    written = figures.PAGE.read_text(encoding="utf-8").partition(figures.MARK)[2]
    assert written == figures.render(), "run python -m tools.figures"
