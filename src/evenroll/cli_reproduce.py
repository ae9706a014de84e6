"""`evenroll reproduce` and `evenroll results`. The consoles are those of cli.py, imported when a command runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from evenroll.study.reproduce import Progress

OutOption = Annotated[Path, typer.Option("--out", help="Directory for the store, figures and report.html.")]


def reproduce(
    targets: Annotated[list[str] | None, typer.Argument(help="fig1 … fig14, table3, table4, theory, or all.")] = None,
    out_dir: OutOption = Path("reproduction"),
    trials: Annotated[int | None, typer.Option(help="Trials of every experiment; default: the paper's.", min=2)] = None,
    budget: Annotated[float | None, typer.Option(help="Largest budget, in mean episode lengths (default 8192).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="20 trials, budgets up to 2⁸: all of it within 4 minutes.")] = False,
    method: Annotated[list[str] | None, typer.Option(help="One more SAMPLER/ESTIMATOR in every figure; repeatable.")] = None,
    domain: Annotated[list[str] | None, typer.Option(help="One more domain in every figure; repeatable.")] = None,
    seed: Annotated[int, typer.Option(help="Base seed; the same seed gives the same numbers.", min=0)] = 0,
    workers: Annotated[int | None, typer.Option(help="Threads; default: all cores.", min=1)] = None,
    list_them: Annotated[
        bool, typer.Option("--list", help="What there is, its steps and its time, and nothing else.")
    ] = False,
) -> None:
    """The paper's figures, tables and claims: run what is missing, draw it, and judge it on one page, report.html."""
    from evenroll.cli import out
    from evenroll.errors import SpecError
    from evenroll.study.experiments import FULL, QUICK, Roster
    from evenroll.study.reproduce import reproduce as run

    if budget is not None and not budget >= 1:
        raise SpecError(f"the budget must be at least one mean episode length, not {budget}")
    scale = replace(QUICK if quick else FULL, seed=seed).limited(trials, budget)
    usual = Roster()
    roster = Roster((*usual.domains, *(domain or ())), (*usual.methods, *(method or ())))
    if list_them:
        _list(targets or ["all"], scale, roster, workers, out_dir)
        return
    if not targets:
        raise SpecError("say what to reproduce: all, or fig2, table3, theory …; `evenroll reproduce --list` shows them")
    said: list[str] = []
    with _bars() as tell:
        outcome = run(targets, out_dir, scale=scale, roster=roster, workers=workers, progress=tell, say=said.append)
    for message in said:
        out.print(f"[yellow]{message}[/yellow]", soft_wrap=True)
    out.print(
        f"{outcome.computed} blocks computed, {outcome.read} read, {outcome.seconds:.0f} s; {len(outcome.files)} files: "
        f"[bold]{outcome.files[-1]}[/bold]",
        soft_wrap=True,
    )


def _list(names: list[str], scale: Any, roster: Any, workers: int | None, directory: Path) -> None:
    from rich.table import Table

    from evenroll.cli import out
    from evenroll.parallel import default_workers
    from evenroll.study.reproduce import choose, plans

    workers = workers or default_workers()
    table = Table(title=f"{scale.trials} trials, budget {scale.budget:g}; times on {workers} workers", title_justify="left")
    for column, justify in (("target", "left"), ("what", "left"), ("steps", "right"), ("time", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for plan in plans(choose(names, scale, roster), workers, directory, scale):
        took = f"{_duration(plan.measured)} measured" if plan.measured is not None else f"≈ {_duration(plan.seconds)}"
        table.add_row(plan.target.name, plan.target.title, f"{plan.env_steps / 1e6:,.0f} M", took)
    out.print(table)
    out.print(
        "≈ is an estimate for a run that finds nothing in the store. Targets share trials: all takes less than the sum."
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


@contextmanager
def _bars() -> Iterator[Callable[[Progress], None]]:
    """Two bars on standard error: the current target, and everything."""
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bars

    from evenroll.cli import err

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[left]}"))
    with Bars(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        whole, current = bars.add_task("everything", total=1.0, left=""), bars.add_task("", total=1.0, left="")

        def left(seconds: float | None) -> str:
            return "" if seconds is None else f"{_duration(seconds)} left"

        def tell(p: Progress) -> None:
            bars.update(whole, completed=p.whole, left=left(p.whole_left))
            bars.update(current, description=p.target, completed=p.share, left=left(p.left))

        yield tell


def results(
    directory: Annotated[Path, typer.Argument(help="What --out of reproduce was, or its store.")] = Path("reproduction"),
    export: Annotated[Path | None, typer.Option(help="Write every trial and checkpoint: .csv, .json or .parquet.")] = None,
    only: Annotated[str, typer.Option(help="Blocks whose domain and method contain this text.")] = "",
) -> None:
    """What is in a results store, and all of it as one table."""
    from rich.markup import escape
    from rich.table import Table

    from evenroll.cli import out
    from evenroll.errors import EvenrollError
    from evenroll.study.store import Store, gathered, write_export

    place = directory / "store" if (directory / "store").is_dir() else directory
    if not place.is_dir():
        raise EvenrollError(f"there is no results store in {directory}")
    said: list[str] = []
    entries = [e for e in Store(place, said.append).entries() if only in f"{e.identity['domain']} {e.identity['method']}"]
    if export is not None:
        write_export(entries, export)
    table = Table(title=f"{len(entries)} blocks in {escape(str(place))}", title_justify="left")
    for column, justify in (
        ("domain", "left"),
        ("method", "left"),
        ("measures", "left"),
        ("steps", "right"),
        ("trials", "right"),
    ):
        table.add_column(column, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in gathered(entries):
        table.add_row(escape(row.domain), escape(row.method), ", ".join(row.measures), f"{row.steps:,}", str(row.trials))
    out.print(table)
    for message in said:
        out.print(f"[yellow]{escape(message)}[/yellow]", soft_wrap=True)
    if export is not None:
        out.print(f"written: {export}")
