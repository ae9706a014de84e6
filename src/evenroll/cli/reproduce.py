"""`evenroll reproduce` and `evenroll results`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenroll.cli.options import ExecutorOption, JsonOption, SeedOption, WorkersOption

if TYPE_CHECKING:
    from evenroll.study.reproduce import Outcome, ReproductionProgress

OutOption = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="Directory for the store, figures and report.html.")
]

DECIDE_HELP = (
    "Add trials where they decide a claim, by a rule that repeated looks do not spoil (a look after every doubling, "
    "at most 5 % wrong); figures keep theirs."
)
QUICK_HELP = "20 trials, budgets up to 2⁸ (more where it is cheap): all of it within 4 minutes."


def reproduce(
    targets: Annotated[list[str] | None, typer.Argument(help="fig1 … fig14, table3, table4, theory, or all.")] = None,
    out_dir: OutOption = Path("reproduction"),
    trials: Annotated[
        int | None, typer.Option(help="Trials of every experiment; default: the paper's.", min=2, metavar="N")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Largest budget, in mean episode lengths (default 8192).", metavar="X")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help=QUICK_HELP)] = False,
    method: Annotated[
        list[str] | None, typer.Option(help="One more SAMPLER/ESTIMATOR in every figure; repeatable.", metavar="METHOD")
    ] = None,
    domain: Annotated[
        list[str] | None, typer.Option(help="One more domain in every figure; repeatable.", metavar="DOMAIN")
    ] = None,
    decide: Annotated[bool, typer.Option("--decide", help=DECIDE_HELP)] = False,
    minutes: Annotated[
        float | None, typer.Option(help="Time limit of --decide, beside that of the figures (default 30).", metavar="X")
    ] = None,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    executor: ExecutorOption = "processes",
    list_them: Annotated[bool, typer.Option("--list", help="Only say what there is, its steps and its time.")] = False,
    json_file: JsonOption = None,
) -> None:
    """The paper's figures, tables and claims: run what is missing, draw it, and judge it on one page, report.html.

    May be interrupted at any time; the same command goes on where it was.
    """
    from evenroll.adapters.loading import as_domain
    from evenroll.cli.console import emit, writable
    from evenroll.errors import SpecError
    from evenroll.study.deciding import MINUTES
    from evenroll.study.experiments import FULL, QUICK, Roster
    from evenroll.study.reproduce import reproduce as run

    if minutes is not None and not decide:
        raise SpecError("--minutes is the time limit of --decide: give both, or neither")
    if minutes is not None and not 0 <= minutes < float("inf"):
        raise SpecError(f"--minutes must be a number of minutes, 0 or more, not {minutes:g}")
    if budget is not None and not budget >= 1:
        raise SpecError(f"the budget must be at least one mean episode length, not {budget}")
    scale = replace(QUICK if quick else FULL, seed=seed).limited(trials, budget)
    usual = Roster()
    for name in domain or ():
        as_domain(name)
    roster = Roster((*usual.domains, *(domain or ())), (*usual.methods, *(method or ())))
    if list_them:
        _list(targets or ["all"], scale, roster, workers, out_dir)
        return
    if not targets:
        raise SpecError("say what to reproduce: all, or fig2, table3, theory …; `evenroll reproduce --list` shows them")
    writable(json_file)
    said: list[str] = []
    try:
        with _bars(json_file == "-") as tell:
            outcome = run(
                targets,
                out_dir,
                scale=scale,
                roster=roster,
                workers=workers,
                executor=executor,
                decide_minutes=(MINUTES if minutes is None else minutes) if decide else None,
                progress=tell,
                say=said.append,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on where this one was") from None
    if json_file != "-":
        _show_outcome(outcome, said)
    emit(outcome.to_json(), json_file)


def _show_outcome(outcome: Outcome, said: list[str]) -> None:
    from evenroll.cli.console import out, shown

    for message in said:
        out.print(f"[yellow]{shown(message)}[/yellow]", soft_wrap=True)
    verdicts = [claim.verdict for claim in outcome.claims]
    counted = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
    if counted:
        out.print(f"claims: {counted}")
    if outcome.deciding is not None:
        _show_deciding(outcome)
    out.print(
        f"{outcome.computed} blocks computed, {outcome.read} read, {outcome.seconds:.0f} s; {len(outcome.files)} files: "
        f"[bold]{outcome.files[-1]}[/bold]",
        soft_wrap=True,
    )


def _show_deciding(outcome: Outcome) -> None:
    """Every claim that got more trials or is undecided, with how many its verdict took or why there is none."""
    from evenroll.cli.console import out, shown

    deciding = outcome.deciding
    assert deciding is not None
    for claim in outcome.claims:
        if claim.note:
            out.print(shown(f"{claim.target}, {claim.verdict}: {claim.text} {claim.note}"), soft_wrap=True)
    out.print(
        f"{deciding.looks} looks at parts of claims with {deciding.trials:,} added trials, {_duration(deciding.seconds)}"
    )
    if deciding.out_of_time:
        out.print(
            f"[yellow]the time limit of {deciding.minutes:g} minutes came first: the same command goes on from here, and "
            "--minutes allows more[/yellow]",
            soft_wrap=True,
        )


def _list(names: list[str], scale: Any, roster: Any, workers: int | None, directory: Path) -> None:
    from rich.table import Table

    from evenroll.cli.console import out
    from evenroll.executors.pool import default_workers
    from evenroll.study.costs import plans, total_seconds
    from evenroll.study.reproduce import choose

    workers = workers or default_workers()
    table = Table(title=f"{scale.trials} trials, budget {scale.budget:g}; times on {workers} workers", title_justify="left")
    for column, justify in (("target", "left"), ("what", "left"), ("steps", "right"), ("time", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    selected_targets = choose(names, scale, roster)
    for plan in plans(selected_targets, workers, directory):
        took = f"{_duration(plan.measured)} measured" if plan.measured is not None else f"≈ {_duration(plan.seconds)}"
        table.add_row(plan.target.name, plan.target.title, f"{plan.env_steps / 1e6:,.0f} M", took)
    out.print(table)
    together = total_seconds(selected_targets) / workers
    out.print(f"≈ estimated, if nothing is in the store yet. Targets share trials: together ≈ {_duration(together)}.")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


@contextmanager
def _bars(quiet: bool) -> Iterator[Callable[[ReproductionProgress], None]]:
    """Two progress bars on standard error, one for the current target and one for everything."""
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bars

    from evenroll.cli.console import err
    from evenroll.cli.signals import raise_from_now_on

    raise_from_now_on()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[left]}"))
    with Bars(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bars:
        whole, current = bars.add_task("everything", total=1.0, left=""), bars.add_task("", total=1.0, left="")

        def left(seconds: float | None) -> str:
            return "" if seconds is None else f"{_duration(seconds)} left"

        def tell(p: ReproductionProgress) -> None:
            bars.update(whole, description=p.whole_name, completed=p.whole, left=left(p.whole_left))
            bars.update(current, description=p.target, completed=p.share, left=left(p.left))

        yield tell


def results(
    directory: Annotated[Path, typer.Argument(help="What --out of reproduce was, or its store.")] = Path("reproduction"),
    export: Annotated[
        Path | None, typer.Option(help="Write every trial and checkpoint: .csv, .json or .parquet.", metavar="FILE")
    ] = None,
    only: Annotated[str, typer.Option(help="Blocks whose domain and method contain this text.", metavar="TEXT")] = "",
    json_file: JsonOption = None,
) -> None:
    """What is in a results store, and all of it as one table."""
    from evenroll.cli.console import emit, out, shown, writable
    from evenroll.cli.tables import show_table
    from evenroll.errors import EvenrollError
    from evenroll.study.store import Store, check_export, gathered, write_export

    place = directory / "store" if (directory / "store").is_dir() else directory
    if not any(place.glob("??/*.parquet")) and not (place / "aside").is_dir():
        raise EvenrollError(f"there is no results store in {directory}: give what --out of `evenroll reproduce` was")
    if export is not None:
        check_export(export)
    writable(json_file, export)
    said: list[str] = []
    entries = [e for e in Store(place, said.append).entries() if only in f"{e.identity['domain']} {e.identity['method']}"]
    found = gathered(entries)
    if json_file != "-":
        header = ("domain", "method", "measures", "steps", "trials")
        rows = [(row.domain, row.method, ", ".join(row.measures), f"{row.steps:,}", str(row.trials)) for row in found]
        show_table(f"{len(entries)} blocks in {place}", header, rows, left=3)
        for message in said:
            out.print(f"[yellow]{shown(message)}[/yellow]", soft_wrap=True)
    emit({"blocks": len(entries), "rows": [asdict(row) for row in found], "aside": said}, json_file)
    if export is not None:
        write_export(entries, export)
        if json_file != "-":
            out.print(f"written: {shown(export)}", soft_wrap=True)
