"""`evenroll leaderboard`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from evenroll.cli.options import ExecutorOption, SeedOption, WorkersOption
from evenroll.domains.registration import DOMAINS

MethodOption = Annotated[
    list[str] | None, typer.Option(help="SAMPLER/ESTIMATOR instead of the usual ones; repeatable.", metavar="METHOD")
]


def leaderboard(
    domains: Annotated[str, typer.Option(help="Comma-separated.", metavar="DOMAINS")] = ",".join(DOMAINS),
    method: MethodOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="16 trials, budgets up to 2⁹: about two minutes.")] = False,
    out_dir: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Directory for leaderboard.md, .json and .png.")
    ] = Path("leaderboard"),
    trials: Annotated[
        int | None, typer.Option(help="Independent repetitions (default 200; 16 if --quick).", min=2, metavar="N")
    ] = None,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    executor: ExecutorOption = "processes",
) -> None:
    """All samplers on all domains: error relative to on-policy sampling, and how many times fewer steps that saves.

    With the extra data, trials are kept in the directory, and a run that was interrupted goes on with the same command.
    """
    from evenroll.cli.console import out, progress_bar, shown, writable
    from evenroll.cli.tables import show_table
    from evenroll.errors import EvenrollError
    from evenroll.study.leaderboard import BUDGETS, METHODS, QUICK_BUDGETS, QUICK_TRIALS, cells, write
    from evenroll.study.leaderboard import leaderboard as run
    from evenroll.study.store import Store

    if out_dir.exists() and not out_dir.is_dir():
        raise EvenrollError(f"{out_dir} is a file, not a directory")
    writable(out_dir / "leaderboard.json" if out_dir.is_dir() else out_dir)
    said: list[str] = []
    keeps = importlib.util.find_spec("pyarrow") is not None
    try:
        with progress_bar("trials", False) as progress:
            boards = run(
                [name.strip() for name in domains.split(",") if name.strip()],
                methods=method or METHODS,
                budgets=QUICK_BUDGETS if quick else BUDGETS,
                trials=trials or (QUICK_TRIALS if quick else 200),
                seed=seed,
                workers=workers,
                executor=executor,
                store=Store(out_dir / "store", said.append) if keeps else None,
                progress=progress,
            )
    except KeyboardInterrupt:
        if not keeps:
            raise
        raise KeyboardInterrupt("the same command goes on where this one was") from None
    for message in said:
        out.print(f"[yellow]{shown(message)}[/yellow]", soft_wrap=True)
    for board in boards:
        title = f"{board.domain}: MSE / on-policy theory, budget {board.budgets[-1]:,}, {board.trials} trials"
        rows = []
        for row in board.rows:
            name, *_, ratio, fewer, bias, microseconds = cells(row)
            rows.append((name, ratio, f"× {fewer.split(' [')[0]}", bias, microseconds))
        show_table(title, ("method", "ratio, 95 %", "fewer steps", "bias/√MSE", "µs/step"), rows)
    paths = write(boards, out_dir)
    out.print("written: " + ", ".join(shown(path) for path in paths), soft_wrap=True)
