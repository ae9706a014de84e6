"""What requirements/ pins is what pyproject.toml says: the oldest versions are its lower bounds; locks lie within it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINTERS = {"ruff", "mypy"}  # no test runs them


def wanted() -> list[Requirement]:
    """What the package and its extras name, other packages only."""
    extras = [requirement for named in PROJECT["optional-dependencies"].values() for requirement in named]
    found = [Requirement(text) for text in [*PROJECT["dependencies"], *extras]]
    return [requirement for requirement in found if requirement.name != PROJECT["name"]]


def pins(name: str) -> dict[str, Version]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    return {canonicalize_name(n): Version(v) for n, v in re.findall(r"^([\w.-]+)==(\S+)$", text, re.M)}


def torch() -> Version:
    """The one that the Makefile pins, and why it is newer than its bound is said there."""
    return Version(re.search(r"^TORCH := torch==(\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)[1])


@pytest.mark.parametrize("requirement", wanted(), ids=str)
def test_make_oldest_takes_the_lower_bound(requirement: Requirement) -> None:
    if requirement.name in LINTERS:
        return
    pinned = pins("oldest")[canonicalize_name(requirement.name)]
    lowest = [Version(part.version) for part in requirement.specifier if part.operator == ">="]
    assert [pinned] == ([torch()] if requirement.name == "torch" else lowest or [pinned])


def test_locks_lie_within_the_ranges() -> None:
    locked = {**pins("core"), **pins("dev"), "torch": torch()}
    for requirement in wanted():
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement


def test_the_version_stands_in_one_place() -> None:
    """In src/evenroll/__init__.py: bumping it is changing one line."""
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT
    for path in (ROOT / "CITATION.cff", ROOT / "mkdocs.yml"):
        assert not re.search(r"^version:", path.read_text(encoding="utf-8"), re.M)
