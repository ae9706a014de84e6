"""`evenroll evaluate` and `evenroll difference`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from evenroll.cli.console import emit, live_result, out, significant, writable
from evenroll.cli.keeping import kept
from evenroll.cli.options import (
    POLICY_HELP,
    SAMPLER_HELP,
    AnyArgument,
    ConfidenceOption,
    EnvArgument,
    EnvsOption,
    ForceOption,
    GammaOption,
    HorizonOption,
    InitialOption,
    IntervalOption,
    JsonOption,
    NormalizeOption,
    PolicyOption,
    SamplerOption,
    SeedOption,
)
from evenroll.errors import CollectionFault, SpecError
from evenroll.text.specs import closest

if TYPE_CHECKING:
    from evenroll.evaluation.result import Evaluation


def evaluate(
    domain: AnyArgument,
    policy: Annotated[str | None, typer.Option("--policy", help=f"{POLICY_HELP} A domain has its own.")] = None,
    sampler: Annotated[str, typer.Option(help=SAMPLER_HELP)] = "auto",
    estimator: Annotated[str, typer.Option(help="mc, score, ois, wis, pdis, ris, wris, fqe, fqe-net, dr or wdr.")] = "mc",
    episodes: Annotated[int | None, typer.Option(help="Trajectories to collect (default 100).")] = None,
    steps: Annotated[int | None, typer.Option(help="Environment steps to take instead.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Discount; default: the domain's, 1 for ENV.")] = None,
    confidence: ConfidenceOption = 0.95,
    half_width: Annotated[
        str | None,
        typer.Option(help="Stop when the interval is this narrow: 0.5, or 5% of the value. --episodes: the most."),
    ] = None,
    interval: IntervalOption = "auto",
    force_interval: ForceOption = False,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Smallest and largest possible return; no interval goes beyond."),
    ] = None,
    seed: SeedOption = 0,
    horizon: HorizonOption = None,
    envs: EnvsOption = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="The policy's likeliest actions.")] = False,
    initial_data: InitialOption = None,
    normalize: NormalizeOption = None,
    plot: Annotated[Path | None, typer.Option(help="Running estimate and interval (.png, .pdf, .svg).")] = None,
    json_file: JsonOption = None,
) -> None:
    """Evaluate a policy: its value, an interval, what it took, and how far the data is from on-policy."""
    from evenroll.adapters.loading import load_any_policy, load_domain, load_environment
    from evenroll.adapters.normalization import load_normalization, unnormalised
    from evenroll.collection.rollout_files import load_rollouts
    from evenroll.domains.catalogue import DOMAINS
    from evenroll.evaluation.evaluate import Budget, evaluate_source, look_for, seen
    from evenroll.evaluation.sources import source_of

    writable(json_file, plot)
    loaded_domain = load_domain(domain)
    if loaded_domain is not None and envs is not None:
        raise SpecError("--envs is for environments; a domain runs a whole trial in compiled code")
    if loaded_domain is not None and normalize is not None:
        raise SpecError("--normalize is for environments; the policies of a domain see its states as they are")
    if policy is None and loaded_domain is None:
        near = closest(domain.partition(":")[0], DOMAINS)
        raise SpecError(f"{domain} is not a built-in domain{near}: give the policy to evaluate, --policy ({POLICY_HELP})")
    discount = gamma if gamma is not None or loaded_domain is None else loaded_domain.gamma
    initial = None if initial_data is None else load_rollouts(initial_data, 1.0 if discount is None else discount)
    look = look_for(estimator, initial, interval, force_interval, bounds, confidence)
    budget = Budget.of(episodes, steps, half_width)
    statistics = None if normalize is None else load_normalization(normalize)
    domain_or_environment: Any = loaded_domain or load_environment(domain, envs, statistics)
    source = source_of(
        domain_or_environment, None if policy is None else load_any_policy(policy), sampler, gamma=gamma, seed=seed,
        horizon=horizon, initial=initial, deterministic=deterministic,
        warned=unnormalised(policy) if statistics is None else (),
    )  # fmt: skip
    try:
        total = None if budget.target else budget.episodes or budget.steps
        with live_result(total, json_file == "-") as show:
            try:
                result = evaluate_source(source, look, budget, confidence, show)
            except CollectionFault as fault:
                raise kept(fault, domain) from None
        if plot is not None:
            from evenroll.evaluation.running_estimate import plot_running, running

            plot_running(running(seen(source), confidence), plot, f"{domain}: {result}")
    finally:
        source.close()
    emit(result.to_json(), json_file)
    if json_file != "-":
        show_evaluation(result, plot)


def show_evaluation(result: Evaluation, plot: Path | None = None) -> None:
    """Print an evaluation."""
    out.print(f"[bold]{escape(str(result))}[/bold]", soft_wrap=True)
    out.print(escape(result.in_words()), soft_wrap=True)
    out.print(
        f"{result.steps} steps ({result.terminated} terminated, {result.truncated} truncated, {result.unfinished} "
        f"unfinished), {escape(result.sampler)}/{result.estimator}, γ {result.gamma:g}, seed {result.seed}, "
        f"{escape(str(result.policy))}",
        soft_wrap=True,
    )
    others = ", ".join(f"{name} {value}" for name, value in result.quantities.items())
    if others:
        out.print(f"undiscounted: {others}", soft_wrap=True)
    if result.gradient is not None:
        out.print(f"distance from on-policy: KL {significant(result.kl)}, mean |∇| {significant(result.gradient)}")
    if result.effective_sample_size is not None:
        share = 100 * (result.largest_weight or 0)
        out.print(f"effective sample size {result.effective_sample_size:.1f}, largest weight {share:.2g} % of all")
    if plot is not None:
        out.print(f"running estimate: {plot}")


def difference(
    env_name: EnvArgument,
    policy: PolicyOption,
    against: Annotated[str, typer.Option(help="The other policy, given in the same way.")],
    sampler: SamplerOption = "auto",
    episodes: Annotated[int, typer.Option(help="Of each policy.", min=4)] = 100,
    gamma: GammaOption = 1.0,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = 0,
    horizon: HorizonOption = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="The policies' likeliest actions.")] = False,
    normalize: NormalizeOption = None,
    json_file: JsonOption = None,
) -> None:
    """Which of two policies is better, and by how much: both meet the same starts, so that luck with those cancels."""
    from evenroll.adapters.loading import load_any_policy, load_environment
    from evenroll.adapters.normalization import load_normalization, unnormalised
    from evenroll.evaluation.difference import difference as run

    writable(json_file)
    statistics = None if normalize is None else load_normalization(normalize)
    first, second = load_any_policy(policy), load_any_policy(against)
    warned = () if statistics is not None else (*unnormalised(policy), *unnormalised(against))
    with live_result(episodes, json_file == "-") as show:
        try:
            result = run(
                load_environment(env_name, None, statistics), first, second, sampler=sampler, episodes=episodes,
                gamma=gamma, seed=seed, confidence=confidence, horizon=horizon,
                deterministic=deterministic, progress=show, warned=warned,
            )  # fmt: skip
        except CollectionFault as fault:
            raise kept(fault, env_name) from None
    emit(result.to_json(), json_file)
    if json_file != "-":
        out.print(f"[bold]{escape(str(result))}[/bold]", soft_wrap=True)
        out.print(escape(result.in_words()), soft_wrap=True)
        if result.alone is not None:
            out.print(f"With starts of their own it would be ± {result.alone:.2g}.")
