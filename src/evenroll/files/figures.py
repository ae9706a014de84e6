"""Pictures, written as a whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from evenroll.errors import EvenrollError
from evenroll.files.safe_files import write_atomically


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure in the format that the file's name says, as a whole or not at all. The figure is closed."""
    import matplotlib.pyplot as plt

    data = io.BytesIO()
    try:
        figure.savefig(data, format=Path(path).suffix[1:] or "png", dpi=150)
    except ValueError as error:
        raise EvenrollError(f"cannot write {path}: {error}") from None
    finally:
        plt.close(figure)
    write_atomically(path, data.getvalue())
