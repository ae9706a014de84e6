"""What a planted bug is: some bytes of one file that become others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "evenroll"


@dataclass(frozen=True)
class Bug:
    """In `file` (of src/evenroll) the bytes from `start` to `end` become `new`. All other text stays as it is."""

    file: str
    start: int
    end: int
    new: bytes
    kind: str

    @property
    def source(self) -> bytes:
        return (PACKAGE / self.file).read_bytes()

    def planted(self) -> bytes:
        """The file's text with the bug in it."""
        return self.source[: self.start] + self.new + self.source[self.end :]

    @property
    def line(self) -> int:
        return self.source.count(b"\n", 0, self.start) + 1

    @property
    def module(self) -> str:
        """`package/module`, as the map of tests calls it."""
        return self.file.removesuffix(".py")

    def _lines(self, text: bytes, end: int) -> str:
        first, last = text.rfind(b"\n", 0, self.start) + 1, text.find(b"\n", end)
        return " ".join(text[first : last if last >= 0 else len(text)].decode().split())

    @property
    def name(self) -> str:
        """The line as it was and as it becomes. It stays the same when other lines of the file change."""
        was, is_ = self._lines(self.source, self.end), self._lines(self.planted(), self.start + len(self.new))
        return f"{self.file}: {was} → {is_}"
