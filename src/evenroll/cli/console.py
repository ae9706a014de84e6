"""What all commands print through: results on standard output, progress and errors on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from evenroll.cli.signals import raise_from_now_on
from evenroll.text.numbers import with_interval
from evenroll.text.printable import printable


class Enduring(Console):
    """A console that falls silent when nobody reads it any more (`| head`). What is to be written to files still is."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.file.fileno())
            os.close(nowhere)


out = Enduring(highlight=False, emoji=False)  # "file:x:" is a name and no picture
err = Enduring(stderr=True, highlight=False, emoji=False)

LONGEST = 600  # characters of an error message that are shown; a choice


@contextmanager
def progress_bar(what: str, quiet: bool, keeps: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A bar with the time left, on standard error. It is not shown if that is no terminal, or if JSON goes to the screen.

    keeps  whether the command writes what it has when it is interrupted
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    raise_from_now_on(keeps)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def live_result(total: int | None, quiet: bool) -> Iterator[Callable[[Any], None] | None]:
    """A line on standard error that shows how far an evaluation has come and what is known.

    It is None where nobody would see it: if standard error is no terminal, or JSON goes to the screen.
    """
    raise_from_now_on(keeps=True)
    if quiet or not err.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("collecting"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("", total=total)

        def show(now: Any) -> None:
            text = f"{now.steps:,} steps"
            if now.result is not None:
                text += f", {with_interval(now.result.value, now.result.low, now.result.high)}"
                if now.result.gradient is not None:
                    text += f", sampling error {now.result.gradient:.2g}"
            bar.update(task, completed=now.episodes, description=text)

        yield show


def emit(data: dict[str, Any], target: str | None) -> None:
    """Write JSON to the file that was asked for, or to standard output for `-`."""
    if target is None:
        return
    text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        from evenroll.files.safe_files import write_atomically

        write_atomically(target, text.encode())


def writable(*targets: str | Path | None) -> None:
    """Refuse a place that cannot be written before any work is done: a small file is written there and deleted."""
    from evenroll.files.safe_files import try_place

    for target in targets:
        if target is not None and str(target) != "-":
            try_place(target)


def drawable(plot: Path | None) -> None:
    """Refuse a picture that could not be drawn, before any work is done."""
    if plot is None:
        return
    writable(plot)
    from evenroll.files.figures import check_kind

    check_kind(plot)


def reportable(report: Path | None) -> None:
    """Refuse a report that could not be written, before any work is done."""
    if report is not None:
        from evenroll.files.pages import check_page

        check_page(report)


def significant(x: float | None, digits: int = 3) -> str:
    """A number, or a dash where there is none."""
    return "–" if x is None or x != x else f"{x:.{digits}g}"


def shown(text: object) -> str:
    """Text from elsewhere, for a console: nothing in it controls the terminal or counts as markup."""
    return escape(printable(text))


def tell_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line on standard error. Python would show the line of code that it came from."""
    err.print(f"[yellow]warning:[/yellow] {shown(message)[:LONGEST]}", soft_wrap=True)


def refuse(text: str) -> None:
    """Print one line on standard error and exit with code 2."""
    line = printable(text)
    err.print(f"[red]error:[/red] {escape(line if len(line) <= LONGEST else line[:LONGEST] + ' …')}", soft_wrap=True)
    raise SystemExit(2) from None
