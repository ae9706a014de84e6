"""`evenroll leaderboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenroll.cli.options import ExecutorOption, SeedOption, WorkersOption
from evenroll.domains.registration import DOMAINS

MethodOption = Annotated[list[str] | None, typer.Option(help="SAMPLER/ESTIMATOR instead of the usual ones; repeatable.")]


def leaderboard(
    domains: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(DOMAINS),
    method: MethodOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="16 trials, budgets up to 2⁹: about two minutes.")] = False,
    out_dir: Annotated[Path, typer.Option("--out", help="Directory for leaderboard.md, .json and .png.")] = Path(
        "leaderboard"
    ),
    trials: Annotated[int | None, typer.Option(help="Independent repetitions (default 200; 16 if --quick).", min=2)] = None,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    executor: ExecutorOption = "threads",
) -> None:
    """All samplers on all domains: error relative to on-policy sampling, and how many times fewer steps that saves."""
    from rich.markup import escape
    from rich.table import Table

    from evenroll.cli.console import out, progress_bar
    from evenroll.errors import EvenrollError
    from evenroll.study.leaderboard import BUDGETS, METHODS, QUICK_BUDGETS, QUICK_TRIALS, cells, write
    from evenroll.study.leaderboard import leaderboard as run

    if out_dir.exists() and not out_dir.is_dir():
        raise EvenrollError(f"{out_dir} is a file, not a directory")
    with progress_bar("trials", False) as progress:
        boards = run(
            [name.strip() for name in domains.split(",") if name.strip()],
            methods=method or METHODS,
            budgets=QUICK_BUDGETS if quick else BUDGETS,
            trials=trials or (QUICK_TRIALS if quick else 200),
            seed=seed,
            workers=workers,
            executor=executor,
            progress=progress,
        )
    paths = write(boards, out_dir)
    for board in boards:
        title = f"{escape(board.domain)}: MSE / on-policy theory, budget {board.budgets[-1]:,}, {board.trials} trials"
        table = Table(title=title, title_justify="left")
        table.add_column("method", overflow="fold")
        for name in ("ratio, 95 %", "fewer steps", "bias/√MSE", "µs/step"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in board.rows:
            name, *_, ratio, fewer, bias, microseconds = cells(row)
            table.add_row(escape(name), escape(ratio), f"× {fewer.split(' [')[0]}", bias, microseconds)
        out.print(table)
    out.print("written: " + ", ".join(str(path) for path in paths))
