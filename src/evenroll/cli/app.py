"""The command line. The only file that prints."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenroll import __version__
from evenroll.cli.evaluate import (
    ENV_HELP,
    POLICY_HELP,
    EnvsOption,
    HorizonOption,
    InitialOption,
    collect,
    diagnose,
    difference,
    evaluate_environment,
)
from evenroll.cli.leaderboard import leaderboard
from evenroll.cli.options import ExecutorOption, JsonOption, SeedOption, WorkersOption
from evenroll.cli.reproduce import reproduce, results
from evenroll.errors import EvenrollError

if TYPE_CHECKING:
    from evenroll.policies import Policy

app = typer.Typer(
    name="evenroll",
    help="What a policy is worth, from fewer environment steps.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

LONGEST = 600  # characters of an error message

DOMAIN_HELP = "bandit, gridworld, cartpole or cartpole-continuous; parameters after a colon, e.g. gridworld:noise=1"
DomainArgument = Annotated[str, typer.Argument(help=DOMAIN_HELP, metavar="DOMAIN")]
PolicyOption = Annotated[Path | None, typer.Option("--policy", help="Policy file (.safetensors); default: the shipped one.")]
ConfidenceOption = Annotated[float, typer.Option(help="Of the interval.")]
IntervalOption = Annotated[str, typer.Option(help="auto, score; t, bca or bernstein for independent trajectories.")]
ForceOption = Annotated[
    bool, typer.Option("--force-interval", help="An i.i.d. interval although trajectories depend on each other.")
]


def _version(show: bool) -> None:
    if show:
        out.print(f"evenroll {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    pass


@contextmanager
def _progress(what: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar with the time left, on standard error; nothing if it is not a terminal or JSON goes to the screen."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

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


def _emit(data: dict[str, Any], target: str | None) -> None:
    if target is None:
        return
    text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        from evenroll.files.safe_files import write_atomically

        write_atomically(target, text.encode())


def _writable(*targets: str | Path | None) -> None:
    """Refuse a place that cannot be written before any work is done."""
    for target in targets:
        if target is None or str(target) == "-":
            continue
        path = Path(target)
        if path.is_dir():
            raise EvenrollError(f"{path} is a directory, not a file")
        if path.exists() and not path.is_file():
            raise EvenrollError(f"cannot write {path}: it is not a regular file")
        if not path.absolute().parent.is_dir():
            raise EvenrollError(f"cannot write {path}: there is no directory {path.absolute().parent.name}")
        if not os.access(path.absolute().parent, os.W_OK, effective_ids=True):
            raise EvenrollError(f"cannot write {path}: permission denied")


def _policy(path: Path | None) -> Policy | None:
    if path is None:
        return None
    from evenroll.policies import load_policy

    return load_policy(path)


def _significant(x: float | None, digits: int = 3) -> str:
    return "–" if x is None or x != x else f"{x:.{digits}g}"


def _with_error(x: float, error: float) -> str:
    """A number and its error in per cent."""
    if not x > 0 or error != error:
        return _significant(x)
    return f"{x:.2e} ± {100 * error / x:.0f} %"


@app.command(
    epilog="Examples: [cyan]evenroll evaluate gridworld --sampler ros:alpha=1000 --episodes 500[/cyan]\n\n"
    "[cyan]evenroll evaluate CartPole-v1 --policy model.zip --episodes 100 --gamma 0.99 --plot running.png[/cyan]"
)
def evaluate(
    domain: Annotated[str, typer.Argument(help=f"{DOMAIN_HELP}; or ENV: {ENV_HELP}", metavar="DOMAIN|ENV")],
    policy: Annotated[str | None, typer.Option("--policy", help=f"{POLICY_HELP} A domain has its own.")] = None,
    sampler: Annotated[
        str, typer.Option(help="auto, os, ros:alpha=…, bpg:batch=…,step_size=…, roa:rho=… and others (see the docs).")
    ] = "auto",
    estimator: Annotated[str, typer.Option(help="mc, score, ois, wis, pdis, ris, wris, fqe, fqe-net, dr or wdr.")] = "mc",
    episodes: Annotated[int | None, typer.Option(help="Trajectories to collect (default 1000).")] = None,
    steps: Annotated[int | None, typer.Option(help="Environment steps to take instead.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Discount; default: the domain's.")] = None,
    confidence: ConfidenceOption = 0.95,
    half_width: Annotated[
        str | None,
        typer.Option(help="Stop when the interval is this narrow: 0.5, or 5% of the value. --episodes: the most."),
    ] = None,
    interval: IntervalOption = "auto",
    force_interval: ForceOption = False,
    bounds: Annotated[
        tuple[float, float] | None, typer.Option(help="Smallest and largest possible return, for --interval bernstein.")
    ] = None,
    seed: SeedOption = 0,
    horizon: HorizonOption = None,
    envs: EnvsOption = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="ENV: the policy's likeliest actions.")] = False,
    initial_data: InitialOption = None,
    plot: Annotated[Path | None, typer.Option(help="ENV: running estimate and interval (.png, .pdf, .svg).")] = None,
    json_file: JsonOption = None,
) -> None:
    """Evaluate a policy: its value, an interval, what it took, and how far the data is from on-policy."""
    from evenroll.domains.catalogue import DOMAINS
    from evenroll.evaluation.evaluate import evaluate as run

    if domain.partition(":")[0] not in DOMAINS:
        evaluate_environment(
            domain, policy, sampler=sampler, estimator=estimator, episodes=episodes, steps=steps, gamma=gamma,
            confidence=confidence, half_width=half_width, interval=interval, force_interval=force_interval, bounds=bounds,
            seed=seed, horizon=horizon, envs=envs, deterministic=deterministic, initial_data=initial_data, plot=plot,
            json_file=json_file,
        )  # fmt: skip
        return
    if horizon is not None or envs is not None or deterministic or initial_data is not None or plot is not None:
        raise EvenrollError("--horizon, --envs, --deterministic, --initial-data and --plot are for environments")
    _writable(json_file)
    with err.status("collecting") if err.is_terminal else nullcontext():
        result = run(
            domain,
            _policy(None if policy is None else Path(policy)),
            sampler=sampler,
            estimator=estimator,
            episodes=episodes,
            steps=steps,
            gamma=gamma,
            seed=seed,
            confidence=confidence,
            half_width=half_width,
            interval=interval,
            force_interval=force_interval,
            bounds=bounds,
        )
    _emit(result.to_json(), json_file)
    if json_file == "-":
        return
    out.print(f"[bold]{escape(result.in_words())}[/bold]", soft_wrap=True)
    out.print(
        f"{result.episodes} episodes, {result.steps} steps "
        f"({result.terminated} terminated, {result.truncated} truncated, {result.unfinished} unfinished), "
        f"{result.sampler}/{result.estimator}, seed {seed}"
    )
    out.print(f"distance from on-policy: KL {_significant(result.kl)}, mean |∇| {_significant(result.gradient)}")
    if result.runs_away:
        out.print(
            f"[red]{escape(result.sampler)} runs away from the policy[/red] (KL {result.behavior_kl:.2g} a step): use auto"
        )
    if result.effective_sample_size is not None:
        share = 100 * (result.largest_weight or 0)
        out.print(f"effective sample size {result.effective_sample_size:.1f}, largest weight {share:.2g} % of all")


@app.command(
    epilog="Example: [cyan]evenroll compare gridworld --method os/mc --method ros:alpha=1000/mc --method init+ros/mc "
    "--trials 200 --plot mse.png[/cyan]"
)
def compare(
    domain: DomainArgument,
    method: Annotated[list[str], typer.Option(help=r"\[init+]SAMPLER\[:key=value,…]\[/ESTIMATOR]; give several.")],
    policy: PolicyOption = None,
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

    _writable(json_file, plot)
    with _progress("true value, then trials" if policy and value is None else "trials", json_file == "-") as progress:
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
        from evenroll.study.comparison_plot import plot_comparison

        plot_comparison(result, plot)
    _emit(result.to_json(), json_file)
    if json_file == "-":
        return
    table = Table(title=f"{escape(result.domain)}: relative MSE ± 1 s.e., {trials} trials", title_justify="left")
    table.add_column("method", overflow="fold")
    wanted = [i for i, c in enumerate(result.checkpoints) if c > 0]
    for i in sorted({wanted[len(wanted) // 2], wanted[-1]}):
        table.add_column(f"{result.checkpoints[i]:,} steps", justify="right", no_wrap=True)
    for name in ("vs first", "bias"):
        table.add_column(name, justify="right", no_wrap=True)
    base = result.curves[0].mse[-1]
    for curve in result.curves:
        shown = sorted({wanted[len(wanted) // 2], wanted[-1]})
        cells = [_with_error(curve.mse[i], curve.mse_se[i]) for i in shown]
        ratio = curve.mse[-1] / base if base else float("nan")
        table.add_row(escape(curve.method), *cells, f"× {_significant(ratio)}", f"{curve.bias[-1]:+.1e}")
    out.print(table)
    for curve in result.curves:
        if curve.effective_sample_size is not None and curve.largest_weight is not None:
            size, share = (curve.over_trials(x)[0][-1] for x in (curve.effective_sample_size, curve.largest_weight))
            out.print(f"{escape(curve.method)}: effective sample size {size:.4g}, largest weight {100 * share:.2g} % of all")
        if curve.runaway:
            out.print(f"[red]{escape(curve.method)} runs away from the policy[/red] in {curve.runaway} of {trials} trials")
    error = f" ± {result.value_se:.2g}" if result.value_se else " (exact)"
    rate = result.env_steps / max(result.seconds, 1e-9) / 1e6
    out.print(
        f"v(π) = {result.value:.6g}{error}, T̄ = {result.mean_length:.5g}; "
        f"{result.env_steps:,} steps in {result.seconds:.1f} s ({rate:.2f} M steps/s)"
    )
    if plot is not None:
        out.print(f"curves: {plot}")


@app.command(epilog="Example: [cyan]evenroll value cartpole --policy mine.safetensors --episodes 1000000[/cyan]")
def value(
    domain: DomainArgument,
    policy: PolicyOption = None,
    episodes: Annotated[int, typer.Option(help="Rollouts, where dynamic programming is impossible.", min=1)] = 1_000_000,
    fresh: Annotated[bool, typer.Option("--fresh", help="Rollouts even where the value is known.")] = False,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    json_file: JsonOption = None,
) -> None:
    """The true value of a policy: dynamic programming, or very many rollouts with their standard error."""
    from evenroll.domains.catalogue import get_domain
    from evenroll.study.true_value import truth, value_by_rollouts

    _writable(json_file)
    where = get_domain(domain)
    chosen = _policy(policy) or where.policy()
    where.environment(None).check(chosen)
    with _progress("blocks of rollouts", json_file == "-") as progress:
        run = value_by_rollouts if fresh else truth
        known = run(where, chosen, episodes=episodes, seed=seed, workers=workers, progress=progress)
    data = {
        "domain": str(where),
        "value": known.value,
        "value_se": known.value_se,
        "mean_length": known.mean_length,
        "variance": known.variance if known.variance == known.variance else None,
    }
    _emit(data, json_file)
    if json_file != "-":
        error = f" ± {known.value_se:.2g} (1 s.e.)" if known.value_se else " (exact)"
        out.print(
            f"v(π) = {known.value:.10g}{error}   T̄ = {known.mean_length:.6g}   Var = {_significant(known.variance, 6)}"
        )


@app.command(epilog="Example: [cyan]evenroll train cartpole --seed 1 --out my-cartpole.safetensors[/cyan]")
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
    from evenroll.domains.catalogue import get_domain
    from evenroll.policies import save_policy
    from evenroll.study.training import RECIPES, reinforce
    from evenroll.study.true_value import truth

    where = get_domain(domain)
    recipe = RECIPES[where.name]
    path = out_file or Path(f"{where.name}.safetensors")
    _writable(path)
    total = episodes or recipe.episodes
    with _progress("episodes", False) as bar:
        policy = reinforce(
            where,
            episodes=total,
            learning_rate=recipe.learning_rate if learning_rate is None else learning_rate,
            seed=seed,
            progress=lambda done, g, length: bar(done, total),
        )
    save_policy(policy, path)
    known = truth(where, policy, episodes=20_000)
    error = f" ± {known.value_se:.2g}" if known.value_se else ""
    out.print(f"{path}: v(π) = {known.value:.5g}{error}, T̄ = {known.mean_length:.4g}")


@app.command(epilog="Example: [cyan]evenroll bench --json bench.json[/cyan]")
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, no comparison with PyTorch.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Steps per second of everything built in, against a plain PyTorch version where torch is installed."""
    from evenroll.study.bench import run_bench

    _writable(json_file)
    started = time.perf_counter()
    with _progress("measurements", json_file == "-") as progress:
        result = run_bench(quick=quick, progress=progress)
    result["seconds"] = round(time.perf_counter() - started, 1)
    _emit(result, json_file)
    if json_file != "-":
        from evenroll.study.bench import tables

        for table in tables(result):
            out.print(table)


@app.command(
    epilog="Example: [cyan]evenroll coverage cartpole --sampler ros --estimator score --episodes 512 --repeats 2000[/cyan]"
)
def coverage(
    domain: DomainArgument,
    policy: PolicyOption = None,
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

    _writable(json_file)
    with _progress("runs", json_file == "-") as progress:
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
    _emit(result.to_json(), json_file)
    if json_file == "-":
        return
    out.print(
        f"[bold]{result.coverage:.2%}[/bold] of {repeats} intervals at {confidence:.0%} hold v(π) = {result.value:.6g} "
        f"(95 % of the share: {result.coverage_low:.2%} … {result.coverage_high:.2%}), {escape(result.method)}"
    )
    out.print(
        f"half-width {_significant(result.half_width)}: {_significant(result.oracle_ratio)} of the oracle's, "
        f"{_significant(result.iid_ratio)} of the i.i.d. one; fallback {result.fallback:.1%}, exact {result.exact:.1%}"
    )
    if half_width is not None:
        out.print(f"stopped after {result.episodes:.5g} episodes on average")


app.command(epilog="Example: [cyan]evenroll collect CartPole-v1 --policy model.zip --out data.parquet[/cyan]")(collect)
app.command(epilog="Example: [cyan]evenroll difference CartPole-v1 --policy new.zip --against old.zip[/cyan]")(difference)
app.command(epilog="Example: [cyan]evenroll diagnose data.parquet --policy model.zip[/cyan]")(diagnose)
app.command(epilog="Example: [cyan]evenroll leaderboard --quick --domains gridworld --out results[/cyan]")(leaderboard)
app.command(epilog="Example: [cyan]evenroll reproduce fig2 table3 theory --quick --out reproduction[/cyan]")(reproduce)
app.command(epilog="Example: [cyan]evenroll results reproduction --export trials.csv[/cyan]")(results)


def main() -> None:
    """Entry point. Whatever is wrong with what was given is one line on standard error and exit code 2 (see docs/cli.md)."""
    try:
        raise SystemExit(app(sys.argv[1:] or ["--help"], "evenroll", standalone_mode=False) or 0)
    except KeyboardInterrupt:
        err.print("interrupted")
        raise SystemExit(130) from None
    except (EvenrollError, OSError) as error:
        _refuse(str(error))
    except MemoryError:
        _refuse("not enough memory")
    except Exception as error:
        if not hasattr(error, "format_message"):  # the parser's own errors have it
            raise
        where = getattr(error, "ctx", None)
        _refuse(f"{error.format_message()} ({'evenroll' if where is None else where.command_path} --help)")


def _refuse(text: str) -> None:
    """One line, without what a file might put into it to play with the terminal."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    err.print(f"[red]error:[/red] {escape(line if len(line) <= LONGEST else line[:LONGEST] + ' …')}", soft_wrap=True)
    raise SystemExit(2) from None


if __name__ == "__main__":
    main()
