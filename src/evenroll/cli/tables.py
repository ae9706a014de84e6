"""Tables whose names stay whole, however narrow the terminal is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from evenroll.cli.console import out, shown


def show_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, console: Console = out
) -> None:
    """Print a table whose first `left` columns are names. Where it does not fit, each name gets a line of its own."""
    cells = [[shown(cell) for cell in row] for row in rows]
    columns = list(zip(header, *([str(cell) for cell in row] for row in rows), strict=True))
    if sum(max(map(cell_len, column)) + 3 for column in columns) + 1 <= console.width:
        table = Table(title=shown(title), title_justify="left")
        for i, name in enumerate(header):
            table.add_column(shown(name), justify="left" if i < left else "right", no_wrap=True)
        for row in cells:
            table.add_row(*row)
        console.print(table)
        return
    console.print(f"[italic]{shown(title)}[/italic]", soft_wrap=True)
    widest = max(cell_len(name) for name in header[left:])
    for row in cells:
        console.print(f"[bold]{'  '.join(row[:left])}[/bold]", soft_wrap=True)
        for name, cell in zip(header[left:], row[left:], strict=True):
            console.print(f"  {shown(name):<{widest}}  {cell}", soft_wrap=True)
