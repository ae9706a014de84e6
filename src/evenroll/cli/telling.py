"""Printing what was found, and what was found before an interrupt."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from evenroll.cli.console import emit, err, out, shown, significant
from evenroll.cli.keeping import goes_on
from evenroll.cli.signals import exit_code
from evenroll.errors import EvenrollError, Interrupted

if TYPE_CHECKING:
    from evenroll.collection.rollouts import Rollouts
    from evenroll.evaluation.difference_result import Difference
    from evenroll.evaluation.noise import NoiseBudget
    from evenroll.evaluation.race import Race
    from evenroll.evaluation.result import Evaluation

MUCH = 200_000  # steps; writing them and looking at them takes about two seconds


def tell(result: Any, json_file: str | None, show: Callable[[], None]) -> None:
    """Print a result, then write it: what cannot be written has been seen."""
    if json_file != "-":
        show()
    emit(result.to_json(), json_file)


def tell_stopping(*data: Rollouts) -> None:
    """Say at once that an interrupt was heard where keeping the data and computing its result will take a while."""
    if sum(part.steps for part in data) > MUCH:
        episodes = sum(part.episodes for part in data)
        _say(f"interrupted: {episodes:,} episodes are being kept, then looked at; a second Ctrl-C leaves out the look")


def tell_interrupted(
    stop: Interrupted, json_file: str | None, said: str, command: str | None, report: Path | None = None
) -> NoReturn:
    """Say where the data is and how to go on, print and write what is known, and exit as an interrupted command does.

    The terminal may be gone (SIGHUP) and the disk full: neither keeps the other from being told. The result of much data
    takes a while; a second Ctrl-C does without it.
    """
    _say("interrupted" + (f"; the episodes so far were {said}" if said else " before an episode had finished"))
    if command is not None:
        _say(f"go on with: {command}")
    try:
        result = stop.result
    except KeyboardInterrupt:
        result = None
        _say("interrupted again: the result so far was not computed")
    with suppress(OSError):
        if result is not None and json_file != "-":
            _show(result)
            out.file.flush()
    try:
        emit({"interrupted": True, "value": None} if result is None else result.to_json(), json_file)
        if result is not None and report is not None:
            result.report(report, goes_on())
    except (EvenrollError, OSError) as error:
        _say(str(error))
    raise typer.Exit(exit_code())


def _say(line: str) -> None:
    with suppress(OSError):
        err.print(shown(line), soft_wrap=True)


def _show(result: Any) -> None:
    if hasattr(result, "runners"):
        show_race(result)
    else:
        show_difference(result) if hasattr(result, "first") else show_evaluation(result)


def show_evaluation(result: Evaluation) -> None:
    """Print an evaluation."""
    out.print(f"[bold]{shown(result)}[/bold]", soft_wrap=True)
    out.print(shown(result.in_words()), soft_wrap=True)
    out.print(
        f"{result.steps} steps ({result.terminated} terminated, {result.truncated} truncated, {result.unfinished} "
        f"unfinished), {shown(result.sampler)}/{shown(result.estimator)}, γ {result.gamma:g}, seed {result.seed}, "
        f"{shown(result.policy)}",
        soft_wrap=True,
    )
    if result.noise is not None and not result.exact:
        show_noise(result.noise)
    if result.resets:
        out.print(f"{result.resets} further resets, without a step, show which starts there are")
    others = ", ".join(f"{name} {value}" for name, value in result.quantities.items())
    if others:
        out.print(f"undiscounted: {others}", soft_wrap=True)
    if result.gradient is not None:
        out.print(f"distance from on-policy: KL {significant(result.kl)}, mean |∇| {significant(result.gradient)}")
    if result.effective_sample_size is not None:
        share = 100 * (result.largest_weight or 0)
        out.print(f"effective sample size {result.effective_sample_size:.1f}, largest weight {share:.2g} % of all")


def show_noise(budget: NoiseBudget) -> None:
    """Print the noise budget as a strip, with a line that says what is what."""
    from evenroll.evaluation.noise_picture import in_characters

    parts = in_characters(budget)
    if parts:
        out.print("noise " + "".join(f"[{colour}]{text}[/]" for text, colour, _ in parts))
        out.print("      " + ", ".join(f"[{colour}]{text[0]}[/] {label}" for text, colour, label in parts), soft_wrap=True)


def show_difference(result: Difference) -> None:
    """Print a difference."""
    out.print(f"[bold]{shown(result)}[/bold]", soft_wrap=True)
    out.print(shown(result.in_words()), soft_wrap=True)
    if result.alone is not None:
        out.print(f"With starts of their own it would be ± {result.alone:.2g}.")


def show_race(result: Race) -> None:
    """Print a race: the winner, then all policies in a table."""
    from rich.table import Table

    out.print(f"[bold]{shown(result)}[/bold]", soft_wrap=True)
    out.print(shown(result.in_words()), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for title in ("policy", "estimate", "against the leader", "episodes", "steps", ""):
        table.add_column(title, justify="left" if title in ("policy", "") else "right", overflow="fold")
    for runner in result.runners:
        gap = "" if runner.low is None or runner.high is None else f"{runner.low:+.3g} … {runner.high:+.3g}"
        table.add_row(
            shown(runner.name), significant(runner.value, 4), gap, str(runner.episodes), f"{runner.steps:,}",
            result.state(runner), style="bold" if runner.name == result.winner else None,
        )  # fmt: skip
    out.print(table)
