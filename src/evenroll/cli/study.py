"""`evenroll compare`, `coverage`, `value`, `train` and `bench`: many trials on built-in domains or one's own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from evenroll.cli.console import emit, err, out, progress_bar, significant, writable
from evenroll.cli.options import (
    ConfidenceOption,
    DomainArgument,
    ExecutorOption,
    ForceOption,
    IntervalOption,
    JsonOption,
    PolicyFileOption,
    SeedOption,
    WorkersOption,
)

if TYPE_CHECKING:
    from evenroll.policies import Policy


def _policy(path: Path | None) -> Policy | None:
    if path is None:
        return None
    from evenroll.policies import load_policy

    return load_policy(path)


def compare(
    domain: DomainArgument,
    method: Annotated[list[str], typer.Option(help=r"\[init+]SAMPLER\[:key=value,…]\[/ESTIMATOR]; give several.")],
    policy: PolicyFileOption = None,
    value: Annotated[float | None, typer.Option(help="True value, if you know it better.")] = None,
    mean_length: Annotated[float | None, typer.Option(help="Mean episode length, the unit of the budget.")] = None,
    trials: Annotated[int, typer.Option(help="Independent repetitions.")] = 200,
    budget: Annotated[float, typer.Option(help="In mean episode lengths.")] = 8192,
    initial_episodes: Annotated[int, typer.Option(help="Trajectories of initial data for init+ methods.")] = 100,
    delta: Annotated[float, typer.Option(help="How far off-policy the initial data is.")] = 0.1,
    sampling_error: Annotated[
        bool, typer.Option("--sampling-error", help="Also KL and gradient-norm sampling error.")
    ] = False,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    executor: ExecutorOption = "threads",
    json_file: JsonOption = None,
    plot: Annotated[Path | None, typer.Option(help="Save log-log MSE curves (.png, .pdf, .svg).")] = None,
) -> None:
    """Many trials of several methods: mean squared error against the number of environment steps."""
    from evenroll.study import compare as run
    from evenroll.study.comparison_table import RUNS_AWAY, header_and_rows, remarks

    writable(json_file, plot)
    with progress_bar("true value, then trials" if policy and value is None else "trials", json_file == "-") as progress:
        result = run(
            domain,
            method,
            policy=_policy(policy),
            value=value,
            mean_length=mean_length,
            trials=trials,
            budget=budget,
            initial_episodes=initial_episodes,
            delta=delta,
            sampling_error=sampling_error,
            seed=seed,
            workers=workers,
            executor=executor,
            progress=progress,
        )
    if plot is not None:
        result.plot(plot)
    emit(result.to_json(), json_file)
    if json_file == "-":
        return
    header, rows = header_and_rows(result.checkpoints, result.curves)
    table = Table(title=escape(result.title()), title_justify="left")
    table.add_column(header[0], overflow="fold")
    for name in header[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)
    for line in remarks(result.curves):
        out.print(escape(line), style="red" if RUNS_AWAY in line else None)
    out.print(result.summary())
    if plot is not None:
        out.print(f"curves: {plot}")


def value(
    domain: DomainArgument,
    policy: PolicyFileOption = None,
    episodes: Annotated[int, typer.Option(help="Rollouts, where dynamic programming is impossible.", min=1)] = 1_000_000,
    fresh: Annotated[bool, typer.Option("--fresh", help="Rollouts even where the value is known.")] = False,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    json_file: JsonOption = None,
) -> None:
    """The true value of a policy: dynamic programming, or very many rollouts with their standard error."""
    from evenroll.adapters.loading import as_domain
    from evenroll.study.true_value import truth, value_by_rollouts

    writable(json_file)
    resolved = as_domain(domain)
    evaluated_policy = _policy(policy) or resolved.policy()
    resolved.environment(None).check(evaluated_policy)
    with progress_bar("blocks of rollouts", json_file == "-") as progress:
        run = value_by_rollouts if fresh else truth
        known = run(resolved, evaluated_policy, episodes=episodes, seed=seed, workers=workers, progress=progress)
    data = {
        "domain": str(resolved),
        "value": known.value,
        "value_se": known.value_se,
        "mean_length": known.mean_length,
        "variance": known.variance if known.variance == known.variance else None,
    }
    emit(data, json_file)
    if json_file != "-":
        error = f" ± {known.value_se:.2g} (1 s.e.)" if known.value_se else " (exact)"
        out.print(f"v(π) = {known.value:.10g}{error}   T̄ = {known.mean_length:.6g}   Var = {significant(known.variance, 6)}")


def train(
    domain: DomainArgument,
    out_file: Annotated[Path | None, typer.Option("--out", help="Policy file to write; default DOMAIN.safetensors.")] = None,
    episodes: Annotated[
        int | None, typer.Option(help="Episodes before the snapshot; default: the domain's recipe.", min=16)
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Adam's step size; default: the domain's recipe.", min=0)
    ] = None,
    seed: SeedOption = 0,
) -> None:
    """Make an evaluation policy with REINFORCE: well above random, far from converged."""
    from evenroll.adapters.loading import as_domain
    from evenroll.policies import save_policy
    from evenroll.study.training import recipe_of, reinforce
    from evenroll.study.true_value import truth

    resolved = as_domain(domain)
    recipe = recipe_of(resolved)
    path = out_file or Path(f"{resolved.name}.safetensors")
    writable(path)
    total = episodes or recipe.episodes
    learning_rate = recipe.learning_rate if learning_rate is None else learning_rate
    if resolved.recipe is None:
        err.print(f"{resolved} has no recipe of its own: {total} episodes, learning rate {learning_rate:g}")
    with progress_bar("episodes", False) as bar:
        policy = reinforce(
            resolved,
            episodes=total,
            learning_rate=learning_rate,
            seed=seed,
            progress=lambda done, g, length: bar(done, total),
        )
    save_policy(policy, path)
    known = truth(resolved, policy, episodes=20_000)
    error = f" ± {known.value_se:.2g}" if known.value_se else ""
    out.print(f"{path}: v(π) = {known.value:.5g}{error}, T̄ = {known.mean_length:.4g}")


def bench(
    domains: Annotated[
        list[str] | None,
        typer.Argument(help="Domains, or module:function, to measure alone; default: all.", metavar="DOMAIN"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, no comparison with PyTorch.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Steps per second of everything built in, or of the given domains, against plain PyTorch where it is installed."""
    from evenroll.study.bench import run_bench

    writable(json_file)
    started = time.perf_counter()
    with progress_bar("measurements", json_file == "-") as progress:
        result = run_bench(domains or None, quick=quick, progress=progress)
    result["seconds"] = round(time.perf_counter() - started, 1)
    emit(result, json_file)
    if json_file != "-":
        from evenroll.study.bench import tables

        for table in tables(result):
            out.print(table)


def coverage(
    domain: DomainArgument,
    policy: PolicyFileOption = None,
    value: Annotated[float | None, typer.Option(help="True value, if you know it better.")] = None,
    sampler: Annotated[
        str | None, typer.Option(help=r"\[init+]SAMPLER\[:key=value,…]; default: what evaluate uses.")
    ] = None,
    estimator: Annotated[str | None, typer.Option(help="Default: what evaluate uses.")] = None,
    episodes: Annotated[
        int | None, typer.Option(help="Episodes of each run (default 512); with --half-width the most.", min=3)
    ] = None,
    half_width: Annotated[
        str | None, typer.Option(help="Each run stops when its interval is this narrow, as evaluate --half-width does.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Independent runs, each with its interval.", min=2)] = 1000,
    confidence: ConfidenceOption = 0.95,
    interval: IntervalOption = "auto",
    force_interval: ForceOption = False,
    initial_episodes: Annotated[int, typer.Option(help="Trajectories of initial data for init+ samplers.", min=1)] = 100,
    delta: Annotated[float, typer.Option(help="How far off-policy the initial data is.")] = 0.1,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    executor: ExecutorOption = "threads",
    json_file: JsonOption = None,
) -> None:
    """How often the interval holds the true value, and how wide it is, over many independent runs."""
    from evenroll.evaluation.evaluate import DEFAULT_ESTIMATOR, DEFAULT_SAMPLER
    from evenroll.study.coverage import coverage as run

    writable(json_file)
    with progress_bar("runs", json_file == "-") as progress:
        result = run(
            domain,
            f"{sampler or DEFAULT_SAMPLER}/{estimator or DEFAULT_ESTIMATOR}",
            policy=_policy(policy),
            value=value,
            episodes=episodes,
            half_width=half_width,
            repeats=repeats,
            confidence=confidence,
            kind=interval,
            force=force_interval,
            initial_episodes=initial_episodes,
            delta=delta,
            seed=seed,
            workers=workers,
            executor=executor,
            progress=progress,
        )
    emit(result.to_json(), json_file)
    if json_file == "-":
        return
    out.print(
        f"[bold]{result.coverage:.2%}[/bold] of {repeats} intervals at {confidence:.0%} hold v(π) = {result.value:.6g} "
        f"(95 % of the share: {result.coverage_low:.2%} … {result.coverage_high:.2%}), {escape(result.method)}"
    )
    out.print(
        f"half-width {significant(result.half_width)}: {significant(result.oracle_ratio)} of the oracle's, "
        f"{significant(result.iid_ratio)} of the i.i.d. one; fallback {result.fallback:.1%}, exact {result.exact:.1%}"
    )
    if half_width is not None:
        out.print(f"stopped after {result.episodes:.5g} episodes on average")
