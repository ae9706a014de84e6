"""`evenroll compare`, `value`, `train` and `bench`: many trials on built-in domains or one's own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenroll.cli import completion
from evenroll.cli.console import drawable, emit, err, out, progress_bar, shown, significant, writable
from evenroll.cli.options import (
    DomainArgument,
    ExecutorOption,
    JsonOption,
    PolicyFileOption,
    SeedOption,
    WorkersOption,
)
from evenroll.cli.tables import show_table
from evenroll.errors import EvenrollError, PolicyError

if TYPE_CHECKING:
    from evenroll.policies import Policy


def domain_policy(path: Path | None) -> Policy | None:
    if path is None:
        return None
    from evenroll.policies import load_policy

    if path.suffix in (".zip", ".pt", ".pth") or ":" in path.name:
        raise PolicyError(
            f"{path.name}: many trials run a policy in compiled code, from a .safetensors file (evenroll.save_policy); "
            "`evenroll evaluate` and `difference` also take a Stable-Baselines3 zip or module:function"
        )
    return load_policy(path)


def compare(
    domain: DomainArgument,
    method: Annotated[list[str], typer.Option(help="Give several.", metavar="METHOD", autocompletion=completion.methods)],
    policy: PolicyFileOption = None,
    value: Annotated[float | None, typer.Option(help="True value, if you know it better.", metavar="X")] = None,
    mean_length: Annotated[
        float | None, typer.Option(help="Mean episode length, the unit of the budget.", metavar="X")
    ] = None,
    trials: Annotated[int, typer.Option(help="Independent repetitions.", metavar="N")] = 200,
    budget: Annotated[float, typer.Option(help="In mean episode lengths.", metavar="X")] = 8192,
    initial_episodes: Annotated[
        int, typer.Option(help="Trajectories of initial data for init+ methods.", metavar="N")
    ] = 100,
    delta: Annotated[float, typer.Option(help="How far off-policy the initial data is.", metavar="X")] = 0.1,
    sampling_error: Annotated[
        bool, typer.Option("--sampling-error", help="Also KL and gradient-norm sampling error.")
    ] = False,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    executor: ExecutorOption = "threads",
    json_file: JsonOption = None,
    plot: Annotated[Path | None, typer.Option(help="Save log-log MSE curves (.png, .pdf, .svg).", metavar="FILE")] = None,
) -> None:
    r"""Many trials of several methods: mean squared error against the number of environment steps.

    A METHOD is written \[init+]SAMPLER\[:key=value,…]\[/ESTIMATOR]: for example os, ros:alpha=1000/mc, or init+auto/wis,
    which starts from off-policy data. What is left out takes the paper's value.
    """
    from evenroll.study import compare as run
    from evenroll.study.comparison_table import RUNS_AWAY, header_and_rows, remarks

    writable(json_file)
    drawable(plot)
    with progress_bar("true value, then trials" if policy and value is None else "trials", json_file == "-") as progress:
        result = run(
            domain,
            method,
            policy=domain_policy(policy),
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
    if json_file != "-":
        show_table(result.title(), *header_and_rows(result.checkpoints, result.curves))
        for line in remarks(result.curves):
            out.print(shown(line), style="red" if RUNS_AWAY in line else None)
        out.print(result.summary())
    emit(result.to_json(), json_file)
    if plot is not None:
        result.plot(plot)
        if json_file != "-":
            out.print(f"curves: {shown(plot)}", soft_wrap=True)


def value(
    domain: DomainArgument,
    policy: PolicyFileOption = None,
    episodes: Annotated[
        int, typer.Option(help="Rollouts, where dynamic programming is impossible.", min=1, metavar="N")
    ] = 1_000_000,
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
    evaluated_policy = domain_policy(policy) or resolved.policy()
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
    if json_file != "-":
        exact = not fresh and resolved.known_truth(evaluated_policy) is not None
        seen = f" ± {known.value_se:.2g} " + ("(1 s.e.)" if known.value_se else "(all returns were equal)")
        error = " (exact)" if exact and not known.value_se else seen
        out.print(f"v(π) = {known.value:.10g}{error}   T̄ = {known.mean_length:.6g}   Var = {significant(known.variance, 6)}")
    emit(data, json_file)


def train(
    domain: DomainArgument,
    out_file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Policy file to write; default DOMAIN.safetensors.")
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(help="Episodes before the snapshot; default: the domain's recipe.", min=16, metavar="N")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Adam's step size; default: the domain's recipe.", min=0, metavar="X")
    ] = None,
    sampler: Annotated[
        str,
        typer.Option(
            help="How actions are drawn while it learns: os, or auto for balanced batches.",
            metavar="SAMPLER",
            autocompletion=completion.samplers,
        ),
    ] = "os",
    seed: SeedOption = 0,
    json_file: JsonOption = None,
) -> None:
    """Make an evaluation policy with REINFORCE: well above random, far from converged."""
    from evenroll.adapters.loading import as_domain
    from evenroll.policies import save_policy
    from evenroll.study.training import recipe_of, reinforce
    from evenroll.study.true_value import truth

    resolved = as_domain(domain)
    recipe = recipe_of(resolved)
    path = out_file or Path(f"{resolved.name}.safetensors")
    if out_file is None and path.exists():
        raise EvenrollError(f"{path} exists already: say with --out where the policy is to be written")
    writable(path, json_file)
    total = episodes or recipe.episodes
    learning_rate = recipe.learning_rate if learning_rate is None else learning_rate
    if resolved.recipe is None:
        err.print(f"{resolved} has no recipe of its own: {total} episodes, learning rate {learning_rate:g}")
    with progress_bar("episodes", json_file == "-") as bar:
        policy = reinforce(
            resolved,
            episodes=total,
            learning_rate=learning_rate,
            seed=seed,
            sampler=sampler,
            progress=lambda done, g, length: bar(done, total),
        )
    save_policy(policy, path)
    known = truth(resolved, policy, episodes=20_000)
    if json_file != "-":
        error = f" ± {known.value_se:.2g}" if known.value_se else ""
        out.print(f"{shown(path)}: v(π) = {known.value:.5g}{error}, T̄ = {known.mean_length:.4g}", soft_wrap=True)
    data = {"domain": str(resolved), "policy": str(path), "episodes": total, "learning_rate": learning_rate, "seed": seed}
    emit(
        {**data, "sampler": sampler, "value": known.value, "value_se": known.value_se, "mean_length": known.mean_length},
        json_file,
    )


def bench(
    domains: Annotated[
        list[str] | None,
        typer.Argument(
            help="Domains, or module:function, to measure alone; default: all.",
            metavar="DOMAIN",
            autocompletion=completion.domains,
        ),
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
    if json_file != "-":
        from evenroll.study.bench import tables

        for table in tables(result):
            out.print(table)
    emit(result, json_file)
