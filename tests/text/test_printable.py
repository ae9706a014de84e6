"""Foreign text controls nothing."""

from __future__ import annotations

from pathlib import Path

from evenroll.text.printable import printable


def test_what_nobody_would_see_is_left_out_and_the_rest_is_one_line() -> None:
    assert printable("no\n\x1b[2Jsuch \x07file") == "no [2Jsuch file"
    assert printable("a\u202eb\u2066c\ud800d\x9be\x00f\u200bg\rh\ti") == "a b c d e f g h i"
    assert printable(Path("ä – π ✓ 日本")) == "ä – π ✓ 日本"
    assert printable("") == ""
    assert printable("\x1b[33mWARN: \x1b[1;31molder\x1b[0m") == "WARN: older"
