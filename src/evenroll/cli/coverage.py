"""`evenroll coverage`: how good evaluations are, and how true their intervals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenroll.cli import completion
from evenroll.cli.console import emit, out, progress_bar, significant, writable
from evenroll.cli.options import (
    POLICY_HELP,
    AnyArgument,
    ConfidenceOption,
    ExecutorOption,
    ForceOption,
    HorizonOption,
    IntervalOption,
    JsonOption,
    NormalizeOption,
    ResetsOption,
    SeedOption,
    WorkersOption,
)
from evenroll.cli.study import domain_policy
from evenroll.cli.tables import show_table
from evenroll.errors import SpecError

if TYPE_CHECKING:
    from evenroll.study.coverage import Coverage

HEADER = ("episodes", "estimate", "coverage", "of the share", "width", "says", "is", "MSE", "bias")


def coverage(
    domain: AnyArgument,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="POLICY", help=f"{POLICY_HELP} A domain has its own.")
    ] = None,
    value: Annotated[float | None, typer.Option(help="True value, if you know it better.", metavar="X")] = None,
    truth: Annotated[
        int | None,
        typer.Option(
            help="On-policy episodes behind the true value (environments: 80 × the largest run).", min=3, metavar="N"
        ),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            help=r"As SAMPLER above; default: what evaluate uses.", metavar="SAMPLER", autocompletion=completion.samplers
        ),
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            help="This one alone; default: what evaluate uses, and mc beside it.",
            metavar="ESTIMATOR",
            autocompletion=completion.estimators,
        ),
    ] = None,
    episodes: Annotated[
        list[int] | None,
        typer.Option(
            help="Episodes of each run (default 512, ENV 64); give several. With --half-width the most.", min=3, metavar="N"
        ),
    ] = None,
    half_width: Annotated[
        str | None,
        typer.Option(help="Each run stops when its interval is this narrow, as evaluate --half-width does.", metavar="W"),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(help="Independent runs, each with its interval (default 1000, ENV 200).", min=2, metavar="N"),
    ] = None,
    confidence: ConfidenceOption = 0.95,
    interval: IntervalOption = "auto",
    force_interval: ForceOption = False,
    gamma: Annotated[float | None, typer.Option(help="Discount; default: the domain's, 1 for ENV.", metavar="X")] = None,
    horizon: HorizonOption = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="The policy's likeliest actions.")] = False,
    resets: ResetsOption = None,
    normalize: NormalizeOption = None,
    initial_episodes: Annotated[
        int, typer.Option(help="Trajectories of initial data for init+ samplers.", min=1, metavar="N")
    ] = 100,
    delta: Annotated[float, typer.Option(help="How far off-policy the initial data is.", metavar="X")] = 0.1,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    executor: ExecutorOption = "threads",
    json_file: JsonOption = None,
) -> None:
    r"""How good evaluations are, and how true their intervals: many independent runs against the true value.

    A SAMPLER is written \[init+]SAMPLER\[:key=value,…]: for example ros:alpha=10, or init+auto, which starts from off-policy
    data. The table has, for each number of episodes and each estimate: the share of intervals that hold the value; the mean
    half-width over that of an interval that knows the true spread of the estimate; how many on-policy episodes an episode is
    worth, as the results say and as it is; the mean squared error over that of as many on-policy episodes; the bias in
    standard deviations of the estimate.
    """
    from evenroll.study.coverage import coverage_table

    writable(json_file)
    where, loaded, compiled = _loaded(domain, policy, normalize)
    with progress_bar("runs" if compiled else "episodes", json_file == "-") as progress:
        rows = coverage_table(
            where,
            loaded,
            value=value,
            truth_episodes=truth,
            sampler=sampler or "auto",
            estimators=None if estimator is None else (estimator,),
            episodes=episodes or None,
            half_width=half_width,
            repeats=repeats,
            confidence=confidence,
            kind=interval,
            force=force_interval,
            gamma=gamma,
            horizon=horizon,
            deterministic=deterministic,
            resets=resets,
            initial_episodes=initial_episodes,
            delta=delta,
            seed=seed,
            workers=workers,
            executor=executor,
            progress=progress,
        )
    if json_file != "-":
        show_coverage(rows, half_width is not None)
    emit({**rows[0].to_json(), "rows": [row.to_json() for row in rows]}, json_file)


def _loaded(domain: str, policy: str | None, normalize: Path | None) -> tuple[Any, Any, bool]:
    """(domain or environment, policy, whether it is a domain)."""
    from evenroll.adapters.loading import load_any_policy, load_domain, load_environment, policyless
    from evenroll.adapters.normalization import load_normalization

    found = load_domain(domain)
    if found is not None:
        if normalize is not None:
            raise SpecError("--normalize is for environments; the policies of a domain see its states as they are")
        return found, domain_policy(None if policy is None else Path(policy)), True
    if policy is None:
        raise SpecError(f"{policyless(domain)}: give the policy to evaluate, --policy ({POLICY_HELP})")
    statistics = None if normalize is None else load_normalization(normalize)
    return load_environment(domain, None, statistics), load_any_policy(policy), False


def show_coverage(rows: list[Coverage], stopped: bool) -> None:
    """Print the table, and below it what it was measured against."""
    first = rows[0]
    sampler = first.method.rpartition("/")[0]
    title = f"{first.domain}, {sampler}, {first.repeats} runs, intervals at {first.confidence:.0%}"
    show_table(title, HEADER, [_cells(row) for row in rows], left=2)
    exactly = " (exact)" if first.value_se == 0.0 else f" ± {first.value_se:.2g} (1 s.e.)"
    out.print(f"true value {first.value:.6g}{exactly}; variance of one return {significant(first.variance)}")
    for row in rows:
        odd = [(row.fallback, "fell back to a wider interval"), (row.exact, "exact"), (row.without, "without an interval")]
        said = ", ".join(f"{share:.1%} {what}" for share, what in odd if share > 0.0)
        if said:
            out.print(f"{row.estimator} at {row.episodes:.5g} episodes: {said}")
    if stopped:
        ends = ", ".join(f"{row.estimator} after {row.episodes:.5g} (± {significant(row.half_width)})" for row in rows)
        out.print(f"stopped on average: {ends}")


def _cells(row: Coverage) -> tuple[str, ...]:
    return (
        f"{row.episodes:.5g}",
        row.estimator,
        f"{row.coverage:.1%}",
        f"{row.coverage_low:.1%} … {row.coverage_high:.1%}",
        f"{significant(row.oracle_ratio)} ×",
        "exact" if row.says == math.inf else f"{significant(row.says, 2)} ×",
        f"{significant(row.worth, 2)} ×",
        f"{significant(row.ratio)} ± {significant(row.ratio_se, 2)}",
        f"{row.bias:+.2f} ± {row.bias_se:.2f}",
    )
