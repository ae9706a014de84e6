"""`evenroll evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evenroll.cli import completion
from evenroll.cli.console import drawable, err, live_result, out, reportable, shown, writable
from evenroll.cli.keeping import goes_on, keep, kept, places
from evenroll.cli.options import (
    POLICY_HELP,
    AnyArgument,
    AnyExecutorOption,
    AnyWorkersOption,
    ConfidenceOption,
    EnvsOption,
    ForceOption,
    HorizonOption,
    InitialOption,
    IntervalOption,
    JsonOption,
    NormalizeOption,
    ReportOption,
    ResetsOption,
    SamplerOption,
    SeedOption,
    SpoolOption,
)
from evenroll.cli.telling import show_evaluation, tell, tell_interrupted, tell_stopping
from evenroll.errors import CollectionFault, Interrupted, SpecError


def evaluate(
    domain: AnyArgument,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="POLICY", help=f"{POLICY_HELP} A domain has its own.")
    ] = None,
    sampler: SamplerOption = "auto",
    estimator: Annotated[
        str | None,
        typer.Option(
            help="score, mc, ois, wis, pdis, ris, wris, fqe, fqe-net, dr or wdr.",
            show_default="score",
            metavar="ESTIMATOR",
            autocompletion=completion.estimators,
        ),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(
            help="Trajectories to collect (default 100); with --half-width at most so many (default 100,000).", metavar="N"
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Environment steps to take instead.", metavar="N")] = None,
    gamma: Annotated[float | None, typer.Option(help="Discount; default: the domain's, 1 for ENV.", metavar="X")] = None,
    confidence: ConfidenceOption = 0.95,
    half_width: Annotated[
        str | None,
        typer.Option(help="Stop when the interval is this narrow: 0.5, or 5% of the value.", metavar="W"),
    ] = None,
    interval: IntervalOption = "auto",
    force_interval: ForceOption = False,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Smallest and largest possible return; no interval goes beyond.", metavar="A B"),
    ] = None,
    seed: SeedOption = 0,
    horizon: HorizonOption = None,
    envs: EnvsOption = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="The policy's likeliest actions.")] = False,
    resets: ResetsOption = None,
    initial_data: InitialOption = None,
    normalize: NormalizeOption = None,
    workers: AnyWorkersOption = None,
    executor: AnyExecutorOption = None,
    spool: SpoolOption = None,
    plot: Annotated[
        Path | None, typer.Option(help="Running estimate and interval (.png, .pdf, .svg).", metavar="FILE")
    ] = None,
    report: ReportOption = None,
    json_file: JsonOption = None,
) -> None:
    """Evaluate a policy: its value, an interval, what it took, and how far the data is from on-policy."""
    from evenroll.adapters.loading import load_any_policy, load_domain, load_environment, policyless
    from evenroll.adapters.normalization import load_normalization, unnormalised
    from evenroll.collection.rollout_files import load_rollouts
    from evenroll.evaluation.evaluate import DEFAULT_EPISODES, Budget, evaluate_source, look_for
    from evenroll.evaluation.running_estimate import enough_to_draw
    from evenroll.evaluation.sources import source_of
    from evenroll.evaluation.workers import named_source

    writable(json_file)
    drawable(plot)
    reportable(report)
    loaded_domain = load_domain(domain)
    if loaded_domain is not None and envs is not None:
        raise SpecError("--envs is for environments; a domain runs a whole trial in compiled code")
    if loaded_domain is not None and normalize is not None:
        raise SpecError("--normalize is for environments; the policies of a domain see its states as they are")
    if policy is None and loaded_domain is None:
        raise SpecError(f"{policyless(domain)}: give the policy to evaluate, --policy ({POLICY_HELP})")
    discount = gamma if gamma is not None or loaded_domain is None else loaded_domain.gamma
    initial = None if initial_data is None else load_rollouts(initial_data, 1.0 if discount is None else discount)
    look = look_for(estimator, initial, interval, force_interval, bounds, confidence)
    budget = Budget.of(episodes, steps, half_width)
    statistics = None if normalize is None else load_normalization(normalize)
    if plot is not None and budget.episodes is not None:
        enough_to_draw(budget.episodes + (0 if initial is None else initial.episodes))
    settings: dict[str, Any] = {"gamma": gamma, "seed": seed, "horizon": horizon, "initial": initial}
    settings |= {"deterministic": deterministic, "resets": resets}
    settings["warned"] = unnormalised(policy) if statistics is None else ()
    source: Any = named_source(domain, policy, sampler, workers, executor, spool, envs, normalization=statistics, **settings)
    if source is None:
        env: Any = loaded_domain or load_environment(domain, envs, statistics)
        source = source_of(env, None if policy is None else load_any_policy(policy), sampler, **settings)
    _say_what_cannot_be_kept(source)
    where = places(json_file, plot, report)
    try:
        total = None if budget.target else budget.episodes or budget.steps
        with live_result(total, json_file == "-") as show:
            try:
                result = evaluate_source(source, look, budget, confidence, show)
            except CollectionFault as fault:
                raise kept(fault, domain, where) from None
            except Exception as error:  # after collecting: no estimate, no memory …; a domain's episodes cost nothing
                raise (error if loaded_domain is not None else kept(error, domain, where)) from None
        tell(result, json_file, lambda: show_evaluation(result))
        if plot is not None:
            result.plot(plot)
            if json_file != "-":
                out.print(f"running estimate: {shown(plot)}")
        if report is not None:
            result.report(report, goes_on())
            if json_file != "-":
                out.print(f"report: {shown(report)}")
    except Interrupted as stop:
        tell_stopping(stop.rollouts)
        if spool is not None:  # it has every finished episode, and the same command goes on
            tell_interrupted(stop, json_file, f"written to {spool}", goes_on(), report)
        new = stop.rollouts.episodes - (0 if initial is None else initial.episodes)
        taken = stop.rollouts.steps - (0 if initial is None else initial.steps)
        left = {"episodes": None if episodes is None else max(episodes - new, 1)}
        left |= {"steps": None if steps is None else max(steps - taken, 1)}
        if episodes is None and steps is None and half_width is None:
            left["episodes"] = max(DEFAULT_EPISODES - new, 1)
        file, said = keep(stop.rollouts, domain, where) if new else (initial_data, "")
        command = None if file is None else goes_on(initial_data=file, **left)
        tell_interrupted(stop, json_file, said, command, report)
    finally:
        source.close()


def _say_what_cannot_be_kept(source: Any) -> None:
    """Tell before collecting if an interrupted run could not be continued."""
    recorder = getattr(source, "recorder", None)
    if recorder is not None and "observations" not in recorder.columns.arrays:
        numbers = recorder.model.observations.size
        err.print(
            f"Observations of {numbers:,} numbers are not kept here: should this be interrupted, you will get the result so "
            "far, but no data to go on from. `evenroll collect` keeps them.",
            soft_wrap=True,
        )
