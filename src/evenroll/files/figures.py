"""Pictures, written as a whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from evenroll.errors import EvenrollError
from evenroll.files.safe_files import write_atomically


def check_kind(path: str | Path) -> None:
    """Raise unless a picture can be written under this name: matplotlib knows the ending."""
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if _format(path) not in known:
        raise EvenrollError(f"cannot write {path}: Format {_format(path)!r} is not supported (known: {', '.join(known)})")


def _format(path: str | Path) -> str:
    return Path(path).suffix[1:].lower() or "png"


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure in the format that the file's name says, as a whole or not at all. The figure is closed."""
    import matplotlib.pyplot as plt

    data = io.BytesIO()
    try:
        figure.savefig(data, format=_format(path), dpi=150)
    except ValueError as error:
        raise EvenrollError(f"cannot write {path}: {error}") from None
    finally:
        plt.close(figure)
    write_atomically(path, data.getvalue())
