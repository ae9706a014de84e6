"""Foreign text made fit to print. A file, a store or an environment may hold characters that control a terminal."""

from __future__ import annotations

import re

COLOURS = re.compile(r"\x1b\[[\d;]*m")  # how Gymnasium marks its warnings; without the first character they would be noise


def printable(text: object) -> str:
    """The text as one line without control characters, marks of writing direction, and other characters nobody would see."""
    return " ".join("".join(c if c.isprintable() else " " for c in COLOURS.sub("", str(text))).split())
