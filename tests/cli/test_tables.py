"""Tables at every width: names are whole, nothing vanishes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from evenroll.cli.tables import show_table

NAMES = ("os/mc", "ros:alpha=1000/mc", "init+auto:max_kl=0.01/wis+mc")
HEADER = ("method", "4,096 steps", "8,192 steps", "vs first", "bias")
ROWS = [(name, "1.59e-02 ± 50 %", "5.18e-02 ± 73 %", "× 0.123", "-1.9e-01") for name in NAMES]


def printed(width: int, rows=ROWS, title: str = "gridworld: relative MSE") -> str:
    file = io.StringIO()
    show_table(title, HEADER, rows, console=Console(file=file, width=width, highlight=False))
    return file.getvalue()


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_every_name_and_number_is_whole(width: int) -> None:
    text = printed(width)
    for name in NAMES:
        assert name in text
    assert text.count("5.18e-02 ± 73 %") == text.count("× 0.123") == text.count("-1.9e-01") == 3
    assert all(word in text for word in HEADER[1:])
    assert "…" not in text
    assert "gridworld: relative MSE" in text


def test_a_table_where_it_fits_and_lines_where_not() -> None:
    assert "┃" in printed(100)
    assert "┃" not in printed(60)
    assert max(map(len, printed(60).splitlines())) <= 60


def test_foreign_names_control_nothing() -> None:
    text = printed(200, [("\x1b[2J[red]os", "\x07", "a\nb", "\u202e", "\ud800")], title="[/bold]\x1b]0;x")
    assert not set(text) & set("\x1b\x07\u202e\ud800")
    assert "[red]os" in text
    assert "[/bold]" in text
