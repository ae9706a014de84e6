"""Web pages on disk: a name that cannot be written is refused before there is work to lose."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenroll.errors import EvenrollError
from evenroll.files.pages import check_page, save_page


@pytest.mark.parametrize("name", ["r.pdf", "r", "r.html.gz", "-"])
def test_other_endings_are_refused_and_the_message_says_what_to_do(tmp_path: Path, name: str) -> None:
    for refuse in (check_page, lambda path: save_page("x", path)):
        with pytest.raises(EvenrollError, match=r"a name that ends in \.html"):
            refuse(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvenrollError, match="there is no directory no"):
        check_page(tmp_path / "no" / "r.html")
    (tmp_path / "d.html").mkdir()
    with pytest.raises(EvenrollError, match="it is a directory"):
        check_page(tmp_path / "d.html")


def test_a_page_is_written_as_a_whole(tmp_path: Path) -> None:
    for name in ("r.html", "R.HTM"):
        check_page(tmp_path / name)
        save_page("ä \udc80", tmp_path / name)
        assert (tmp_path / name).read_text() == "ä ?"
    assert {p.name for p in tmp_path.iterdir()} == {"r.html", "R.HTM"}  # no temporary file is left
