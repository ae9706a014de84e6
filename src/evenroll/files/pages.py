"""Web pages, written as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

from evenroll.errors import EvenrollError
from evenroll.files.safe_files import try_place, write_atomically

ENDINGS = (".html", ".htm")


def check_page(path: str | Path) -> None:
    """Raise now if a page could not be written under this name later: the ending is checked, and the place is tried."""
    _check_ending(path)
    try_place(path)


def save_page(text: str, path: str | Path) -> None:
    """Write a page. Text that is no Unicode, such as half of a surrogate pair, is written as a question mark."""
    _check_ending(path)
    write_atomically(path, text.encode(errors="replace"))


def _check_ending(path: str | Path) -> None:
    if Path(path).suffix.lower() not in ENDINGS:
        raise EvenrollError(f"cannot write {path}: a report is a web page, so give it a name that ends in .html")
