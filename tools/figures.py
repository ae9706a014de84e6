"""Where every number in README and docs comes from: docs/figures.md is written from docs/data/figures.toml.

    python -m tools.figures                      # write the page
    python -m tools.figures --released HEAD      # the same, and hold every number against another commit from now on

An entry of the data file is one command, the run of it that is in the docs, and the places where its numbers stand.
Whether a number belongs to the released code is not written down but found out: of what the command runs through, nothing
but words may have changed between the run's commit and the one that the data file calls released. A command runs through
its own file, what that imports from this repository, directly or not, and all samplers, estimators and domains, which are
chosen by their names. Commits that made the same numbers faster are named in the data file, each with its reason, and with
the words of the commands whose numbers they did change; for entries that are times themselves (`speed = true`) they count
like all others.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import shlex
import subprocess
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA, PAGE = ROOT / "docs" / "data" / "figures.toml", ROOT / "docs" / "figures.md"
RELEASED, OLDER, NEVER, UNKNOWN = "released code", "older code", "cannot be run again", "command unknown"
MARK = "<!-- everything below is written by tools/figures.py -->\n"
FOLDERS = ("src", "tools", "tests", "examples")
CHOSEN = ("samplers", "estimators", "domains")  # by names in the command, so all of them count
COMMANDS = {  # of `evenroll`, where the module is not that of the Python function of the same name
    "coverage": "study.coverage", "leaderboard": "study.leaderboard", "reproduce": "study.reproduce", "bench": "study.bench",
    "value": "study.true_value", "train": "study.training", "collect": "evaluation.evaluate",
}  # fmt: skip


def data() -> dict[str, Any]:
    """released, same_numbers (commit → reason), same_but_for (commit → words), nothing_measured (place → reason), figures"""
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def commands(entry: dict[str, Any]) -> list[str]:
    given = entry.get("command", [])
    return [given] if isinstance(given, str) else given


def commit_of(entry: dict[str, Any]) -> str:
    """The commit that was measured, or else the one that wrote the numbers down."""
    return entry["run"].get("commit") or entry["run"]["written"]


# ---- what has changed ----------------------------------------------------------------------------------------------


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@functools.cache
def tree(commit: str) -> dict[str, str]:
    """path → blob of every Python file of a commit."""
    lines = git("ls-tree", "-r", commit, "--", *FOLDERS).splitlines()
    rows = [(line.split("\t")[1], line.split()[2]) for line in lines]
    return {path: blob for path, blob in rows if path.endswith(".py")}


_sources: dict[str, str] = {}


def fetch(blobs: Iterable[str]) -> None:
    """Read many blobs at once; a process for each would take most of the time."""
    wanted = sorted(set(blobs) - set(_sources))
    answer = subprocess.run(
        ["git", "cat-file", "--batch"], cwd=ROOT, input="\n".join(wanted).encode() + b"\n", capture_output=True, check=True
    ).stdout
    for blob in wanted:
        head, _, answer = answer.partition(b"\n")
        size = int(head.split()[2])
        _sources[blob], answer = answer[:size].decode(), answer[size + 1 :]


def source(blob: str) -> str:
    if blob not in _sources:
        fetch([blob])
    return _sources[blob]


@functools.cache
def bare(blob: str) -> str:
    """A source without comments, layout and docstrings."""
    parsed = ast.parse(source(blob))
    for node in ast.walk(parsed):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body[0].value.value = None
    return ast.dump(parsed)


def path_of(module: str, files: dict[str, str]) -> str | None:
    base = module.replace(".", "/")
    base = f"src/{base}" if module.split(".")[0] == "evenroll" else base
    return next((path for path in (f"{base}.py", f"{base}/__init__.py") if path in files), None)


@functools.cache
def imports(path: str, commit: str) -> frozenset[str]:
    """The files of the repository that a file imports, anywhere in it. What a package only hands on is looked up there."""
    files = tree(commit)
    found: set[str | None] = set()
    for node in ast.walk(ast.parse(source(files[path]))):
        if isinstance(node, ast.Import):
            found |= {path_of(alias.name, files) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {where(f"{node.module}.{alias.name}", commit) for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "evenroll":
            found.add(where(f"evenroll.{node.attr}", commit))
    return frozenset(path for path in found if path and not path.endswith("__init__.py"))


@functools.cache
def where(name: str, commit: str) -> str | None:
    """The file of a module, or of what a module or package has under this name."""
    files = tree(commit)
    package, _, last = name.rpartition(".")
    path = path_of(name, files) or path_of(package, files)
    if path == "src/evenroll/__init__.py":  # a table of names that are loaded on first use
        found = re.search(rf'^    "{last}": "([\w.]+)"', source(files[path]), re.M)
        return where(f"evenroll.{found[1]}.{last}", commit) if found else None
    if path and path.endswith("__init__.py"):
        for node in ast.parse(source(files[path])).body:
            if isinstance(node, ast.ImportFrom) and node.module and last in [alias.name for alias in node.names]:
                return where(f"{node.module}.{last}", commit)
    return path


def roots(command: str, commit: str) -> Iterator[str | None]:
    words = shlex.split(command)
    files = tree(commit)
    if words[0] == "evenroll":
        name = words[1]
        yield path_of(f"evenroll.{COMMANDS[name]}", files) if name in COMMANDS else where(f"evenroll.{name}", commit)
    elif words[:2] == ["python", "-m"]:
        yield path_of(words[2], files)
        yield path_of(f"{words[2]}.__main__", files)
    elif words[0] == "python" and words[1].endswith(".py"):
        yield words[1]
    else:  # make, pytest: everything
        yield from (path for path in files if path.startswith("src/"))


@functools.cache
def reached(command: str, commit: str) -> frozenset[str]:
    files = tree(commit)
    fetch(files.values())
    waiting = [path for path in roots(command, commit) if path in files]
    if not waiting:
        raise ValueError(f"{command}: no file of commit {commit} belongs to it")
    waiting += [path for path in files if path.startswith(tuple(f"src/evenroll/{folder}/" for folder in CHOSEN))]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += imports(path, commit)
    return frozenset(path for path in seen if not path.endswith("__init__.py"))


@functools.cache
def touched(first: str, last: str) -> dict[str, set[str]]:
    """path → the commits after the first, up to the last, that changed it."""
    found: dict[str, set[str]] = {}
    commit = ""
    told = ("--abbrev=7", "--format=commit %h", "--name-only", "--no-merges")
    for line in git("log", *told, f"{first}..{last}", "--", *FOLDERS).split("\n"):
        if line.startswith("commit "):
            commit = line.removeprefix("commit ")
        elif line:
            found.setdefault(line, set()).add(commit)
    return found


def same_numbers(entry: dict[str, Any], given: dict[str, Any]) -> frozenset[str]:
    """The commits that changed nothing of what the entry's commands measure."""
    told = " ".join(commands(entry))
    return frozenset(
        commit for commit in given["same_numbers"] if not any(word in told for word in given["same_but_for"].get(commit, ()))
    )


def changed(entry: dict[str, Any], now: str, same: frozenset[str]) -> list[str]:
    """Files that the commands run through, and that say something else than at the time of the run."""
    first = commit_of(entry)
    before, after = tree(first), tree(now)
    files = sorted({path for command in commands(entry) for path in reached(command, now)})
    other = [path for path in files if before.get(path) != after[path]]
    if len(other) > 40:  # far away, words or not
        return other
    if not entry.get("speed"):
        other = [path for path in other if not touched(first, now).get(path, {""}) <= same]
    fetch(before[path] for path in other if path in before)
    return [path for path in other if path not in before or bare(before[path]) != bare(after[path])]


def status(entry: dict[str, Any], now: str, same: frozenset[str]) -> tuple[str, str]:
    """(status, why or what has changed)"""
    note = entry.get("note", "")
    if "status" in entry:
        return entry["status"], note
    other = changed(entry, now, same)
    if not other:
        return RELEASED, note
    names = [path.removeprefix("src/evenroll/").removesuffix(".py") for path in other]
    told = ", ".join(f"`{name}`" for name in names) if len(names) <= 4 else f"{len(names)} files"
    return OLDER, "; ".join([note, f"changed since: {told}"] if note else [f"changed since: {told}"])


# ---- the page ------------------------------------------------------------------------------------------------------


def slug(heading: str) -> str:
    """The anchor that mkdocs gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def sections(path: Path) -> dict[str, tuple[str, str]]:
    """anchor → (heading, text) of a page; what stands before the first heading below the title is at the title's."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", lambda block: block[0].replace("\n#", "\n "), text, flags=re.M | re.S)
    parts = re.split(r"^#{1,4} (.+)$", text, flags=re.M)
    return {slug(heading): (heading, body) for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


def file_of(page: str) -> Path:
    """A page's file; the notebook becomes a page when the site is built."""
    return ROOT / page if page == "README.md" else ROOT / "docs" / page


def render() -> str:
    given = data()
    now = given["released"]
    rows: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for entry in given["figures"]:
        run = entry["run"]
        state, why = status(entry, now, same_numbers(entry, given))
        counts[state] += 1
        line = "<br>".join(f"`{command}`".replace("|", "\\|") for command in commands(entry)) or "–"
        commit = run["commit"] if "commit" in run else f"≤ {run['written']}"
        for place, what in entry["places"]:
            page, _, anchor = place.partition("#")
            link = what if page == "README.md" else f"[{what}]({page}#{anchor})"
            told = f"**{state}**" + (f": {why}" if why else "")
            took = f"{run.get('time', '–')}; {run['cores']}" if "cores" in run else run.get("time", "–")
            cells = [link, line, commit, str(run["date"]), took, told]
            rows.setdefault(page, []).append("| " + " | ".join(cells) + " |")
    total = "\n".join(f"| {state} | {counts[state]} |" for state in (RELEASED, OLDER, NEVER, UNKNOWN))
    text = f"\nThe released code is commit {now} here. Runs by status:\n\n| status | runs |\n|---|---|\n{total}\n"
    for page in sorted(rows, key=order().index):
        title = "README" if page == "README.md" else title_of(page)
        text += f'\n## {title}\n\n<div class="figures" markdown>\n\n'
        text += "| numbers | command | commit | date | time; cores | status |\n|---|---|---|---|---|---|\n"
        text += "\n".join(rows[page]) + "\n\n</div>\n"
    reasons = "\n".join(f"| {commit} | {why} | {excepted(commit, given)} |" for commit, why in given["same_numbers"].items())
    head = "| commit | why | but for commands with |\n|---|---|---|"
    return f"{text}\n## Commits that changed no number\n\n{head}\n{reasons}\n"


def excepted(commit: str, given: dict[str, Any]) -> str:
    return ", ".join(f"`{word}`" for word in given["same_but_for"].get(commit, ())) or "–"


def order() -> list[str]:
    """README, then the pages as the site has them."""
    return ["README.md", *re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)]


def title_of(page: str) -> str:
    path = file_of(page)
    if not path.exists():
        return {"newcomer.md": "A first notebook"}[page]
    return next(iter(sections(path).values()))[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--released", help="the commit that every number is held against from now on")
    given = parser.parse_args()
    if given.released:
        short = git("rev-parse", "--short=7", given.released).strip()
        text = DATA.read_text(encoding="utf-8")
        DATA.write_text(re.sub(r'^released = ".*"$', f'released = "{short}"', text, count=1, flags=re.M), encoding="utf-8")
    before = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(before + MARK + render(), encoding="utf-8")
    print(re.search(r"\| status.*?\n\n", PAGE.read_text(encoding="utf-8"), re.S)[0])


if __name__ == "__main__":
    main()
