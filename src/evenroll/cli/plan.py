"""`evenroll plan`: what a precision will take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evenroll.cli import completion
from evenroll.cli.console import out, progress_bar, shown, writable
from evenroll.cli.options import (
    POLICY_HELP,
    AnyArgument,
    ConfidenceOption,
    EnvsOption,
    HorizonOption,
    JsonOption,
    NormalizeOption,
    ResetsOption,
    SamplerOption,
    SeedOption,
)
from evenroll.cli.telling import tell
from evenroll.errors import SpecError


def plan(
    domain: AnyArgument,
    half_width: Annotated[str, typer.Option(help="How narrow the interval shall be: 0.5, or 5% of the value.", metavar="W")],
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="POLICY", help=f"{POLICY_HELP} A domain has its own.")
    ] = None,
    pilot: Annotated[int, typer.Option(help="Episodes to tell it from.", min=8, metavar="N")] = 32,
    sampler: SamplerOption = "auto",
    estimator: Annotated[
        str | None,
        typer.Option(
            help="As for evaluate.", show_default="score", metavar="ESTIMATOR", autocompletion=completion.estimators
        ),
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="Discount; default: the domain's, 1 for ENV.", metavar="X")] = None,
    confidence: ConfidenceOption = 0.95,
    bounds: Annotated[
        tuple[float, float] | None, typer.Option(help="Smallest and largest possible return.", metavar="A B")
    ] = None,
    seed: SeedOption = 0,
    horizon: HorizonOption = None,
    envs: EnvsOption = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="The policy's likeliest actions.")] = False,
    resets: ResetsOption = None,
    normalize: NormalizeOption = None,
    json_file: JsonOption = None,
) -> None:
    """What a precision will take: a short pilot, then how many episodes and how long, with evenroll and on-policy."""
    from evenroll.evaluation.plan import plan as run

    writable(json_file)
    where, loaded = _loaded(domain, policy, envs, normalize)
    with progress_bar("pilot", json_file == "-") as progress:
        result = run(
            where, loaded, half_width=half_width, pilot=pilot, sampler=sampler, estimator=estimator, gamma=gamma, seed=seed,
            confidence=confidence, horizon=horizon, deterministic=deterministic, resets=resets, bounds=bounds,
            progress=progress,
        )  # fmt: skip

    def show() -> None:
        out.print(f"[bold]{shown(result)}[/bold]", soft_wrap=True)
        out.print(shown(result.in_words()), soft_wrap=True)
        out.print(f"{result.steps} steps, {shown(result.sampler)}/{shown(result.estimator)}, {shown(result.policy)}")

    tell(result, json_file, show)


def _loaded(domain: str, policy: str | None, envs: int | None, normalize: Path | None) -> tuple[Any, Any]:
    from evenroll.adapters.loading import load_any_policy, load_domain, load_environment, policyless
    from evenroll.adapters.normalization import load_normalization

    loaded = None if policy is None else load_any_policy(policy)
    found = load_domain(domain)
    if found is not None:
        if envs is not None or normalize is not None:
            raise SpecError("--envs and --normalize are for environments")
        return found, loaded
    if policy is None:
        raise SpecError(f"{policyless(domain)}: give the policy to evaluate, --policy ({POLICY_HELP})")
    statistics = None if normalize is None else load_normalization(normalize)
    return load_environment(domain, envs, statistics), loaded
