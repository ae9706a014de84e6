"""`evenroll difference`, `evenroll gate` and `evenroll best`: which policy is better, may this one ship, which is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from evenroll.cli.console import drawable, emit, live_result, out, reportable, shown, writable
from evenroll.cli.keeping import goes_on, keep_pair, places
from evenroll.cli.options import (
    AnyArgument,
    AnyExecutorOption,
    AnyWorkersOption,
    ConfidenceOption,
    HorizonOption,
    JsonOption,
    NormalizeOption,
    PolicyOption,
    ReportOption,
    ResetsOption,
    SamplerOption,
    SeedOption,
    SpoolOption,
)
from evenroll.cli.telling import show_difference, show_race, tell, tell_interrupted, tell_stopping
from evenroll.errors import EvenrollError, Interrupted, NoSuccess, SpecError

DiscountOption = Annotated[float | None, typer.Option(help="Discount; default: the domain's, 1 for ENV.", metavar="X")]
DeterministicOption = Annotated[bool, typer.Option("--deterministic", help="The policies' likeliest actions.")]
QuantityOption = Annotated[str, typer.Option(help="What counts: return, or success (info['is_success']).", metavar="WHAT")]
MostOption = Annotated[int, typer.Option(help="Episodes of each policy at most.", min=5, metavar="N")]
PlotOption = Annotated[Path | None, typer.Option(help="A picture (.png, .pdf, .svg).", metavar="FILE")]


def difference(
    env_name: AnyArgument,
    policy: PolicyOption,
    against: Annotated[str, typer.Option(help="The other policy, given in the same way.", metavar="POLICY")],
    sampler: SamplerOption = "auto",
    episodes: Annotated[int | None, typer.Option(help="Of each policy (default 100).", min=4, metavar="N")] = None,
    until_decided: Annotated[
        bool, typer.Option("--until-decided", help="Stop as soon as it is clear which is better; valid at any time.")
    ] = False,
    most: Annotated[
        int | None, typer.Option(help="With --until-decided: pairs at most (default 200).", min=5, metavar="N")
    ] = None,
    margin: Annotated[
        float, typer.Option(help="With --until-decided: how large a difference counts.", min=0.0, metavar="M")
    ] = 0.0,
    quantity: QuantityOption = "return",
    gamma: DiscountOption = None,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = 0,
    horizon: HorizonOption = None,
    deterministic: DeterministicOption = False,
    resets: ResetsOption = None,
    normalize: NormalizeOption = None,
    initial_data: Annotated[
        Path | None, typer.Option(help="What --policy collected before the interrupt.", metavar="FILE")
    ] = None,
    initial_against: Annotated[
        Path | None, typer.Option(help="What --against collected before the interrupt.", metavar="FILE")
    ] = None,
    workers: AnyWorkersOption = None,
    executor: AnyExecutorOption = None,
    spool: SpoolOption = None,
    plot: PlotOption = None,
    report: ReportOption = None,
    json_file: JsonOption = None,
) -> None:
    """Which of two policies is better, and by how much: both meet the same starts, so that luck with those cancels."""
    from evenroll.collection.rollout_files import load_rollouts
    from evenroll.evaluation.difference import difference as run

    writable(json_file)
    drawable(plot)
    reportable(report)
    if not until_decided and most is not None:
        raise SpecError("--most is for --until-decided; --episodes says how many there are otherwise")
    collecting = _Collecting(workers, executor, spool)
    env, policies, settings, discount = _loaded(env_name, (policy, against), normalize, gamma, collecting)
    initial = [None if path is None else load_rollouts(path, discount) for path in (initial_data, initial_against)]
    where = places(json_file, plot, report)
    limit = {"until": "decided", "most": most or 200} if until_decided else {"episodes": episodes}
    if margin != 0.0 and not until_decided:
        raise SpecError("--margin is for --until-decided; otherwise the interval shows how large the difference is")
    if until_decided and episodes is not None:
        raise SpecError("--until-decided takes --most, the largest number of episodes, not --episodes")
    try:
        with live_result((most or 200) if until_decided else (episodes or 100), json_file == "-") as show:
            result = run(
                env, policies[0], policies[1], sampler=sampler, margin=margin, quantity=quantity, gamma=gamma, seed=seed,
                confidence=confidence, horizon=horizon, deterministic=deterministic, initial=(initial[0], initial[1]),
                progress=show, resets=resets, **settings, **limit,
            )  # fmt: skip
        tell(result, json_file, lambda: show_difference(result))
        _draw(result, plot, report, json_file)
    except (EvenrollError, MemoryError) as error:
        files, said = keep_pair(getattr(error, "rollouts", None), env_name, where)
        if any(files):
            otherwise = {"quantity": "return"} if isinstance(error, NoSuccess) else {}
            said += f"; go on with: {goes_on(initial_data=files[0], initial_against=files[1], **otherwise)}"
        cause = str(error) or "not enough memory"
        raise EvenrollError(f"{cause}; {said}" if said else cause) from None
    except Interrupted as stop:
        command = None
        tell_stopping(*(stop.rollouts or ()))
        if spool is not None:  # it has every finished episode, and the same command goes on
            tell_interrupted(stop, json_file, *_spooled(spool), report)
        files, said = keep_pair(stop.rollouts, env_name, where)
        if any(files):
            command = goes_on(initial_data=files[0], initial_against=files[1])
        tell_interrupted(stop, json_file, said, command, report)


def gate(
    env_name: AnyArgument,
    policy: PolicyOption,
    against: Annotated[str, typer.Option(help="The policy that is in use now, given in the same way.", metavar="POLICY")],
    margin: Annotated[
        float, typer.Option(help="How much worse it may be. With 0 only a better one passes.", min=0.0, metavar="M")
    ] = 0.0,
    most: MostOption = 200,
    quantity: QuantityOption = "return",
    sampler: SamplerOption = "auto",
    gamma: DiscountOption = None,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = 0,
    horizon: HorizonOption = None,
    deterministic: DeterministicOption = False,
    resets: ResetsOption = None,
    normalize: NormalizeOption = None,
    workers: AnyWorkersOption = None,
    executor: AnyExecutorOption = None,
    spool: SpoolOption = None,
    report: ReportOption = None,
    json_file: JsonOption = None,
) -> None:
    """May this policy ship? Exit code 0: not worse than the other by more than the margin; 1: worse; 3: cannot be told."""
    from evenroll.evaluation.gate import exit_code, in_a_line
    from evenroll.evaluation.gate import gate as run

    writable(json_file)
    reportable(report)
    env, policies, settings, _ = _loaded(
        env_name, (policy, against), normalize, gamma, _Collecting(workers, executor, spool)
    )  # fmt: skip
    if _same_file(policy, against):  # most commits change no policy, and such a one is not worse than itself
        if json_file != "-":
            out.print("PASS: both files hold the same policy; nothing was run")
        emit({"verdict": "not worse", "value": 0.0, "why": "both files hold the same policy; nothing was run"}, json_file)
        return
    try:
        with live_result(most, json_file == "-") as show:
            result = run(
                env, policies[0], policies[1], margin=margin, most=most, quantity=quantity, sampler=sampler, gamma=gamma,
                seed=seed,
                confidence=confidence, horizon=horizon, deterministic=deterministic, resets=resets, progress=show,
                **settings,
            )  # fmt: skip
    except Interrupted as stop:
        tell_interrupted(stop, json_file, *_spooled(spool), report)
    tell(result, json_file, lambda: out.print(shown(in_a_line(result)), soft_wrap=True))
    if report is not None:
        result.report(report, goes_on())
    raise typer.Exit(exit_code(result))


def best(
    env_name: AnyArgument,
    policy: Annotated[list[str], typer.Option("--policy", metavar="POLICY", help="A policy; give this option for each.")],
    most: MostOption = 100,
    margin: Annotated[
        float, typer.Option(help="How much worse than the best the winner may be.", min=0.0, metavar="M")
    ] = 0.0,
    fresh: Annotated[
        int | None,
        typer.Option(
            help="Fresh on-policy episodes for the winner's value (default: half of its rounds, at least 10); 0: none.",
            min=0,
            metavar="N",
        ),
    ] = None,
    quantity: QuantityOption = "return",
    sampler: SamplerOption = "auto",
    gamma: DiscountOption = None,
    confidence: ConfidenceOption = 0.95,
    seed: SeedOption = 0,
    horizon: HorizonOption = None,
    deterministic: DeterministicOption = False,
    resets: ResetsOption = None,
    normalize: NormalizeOption = None,
    workers: AnyWorkersOption = None,
    executor: AnyExecutorOption = None,
    spool: SpoolOption = None,
    plot: PlotOption = None,
    report: ReportOption = None,
    json_file: JsonOption = None,
) -> None:
    """Which of several policies is the best: all meet the same starts, and those that are shown to be worse drop out."""
    from evenroll.evaluation.race import best as run

    writable(json_file)
    drawable(plot)
    reportable(report)
    env, policies, settings, _ = _loaded(env_name, policy, normalize, gamma, _Collecting(workers, executor, spool))
    names = _names(policy)
    try:
        with live_result(most, json_file == "-") as show:
            result = run(
                env, dict(zip(names, policies, strict=True)), most=most, margin=margin, fresh=fresh, quantity=quantity,
                sampler=sampler, gamma=gamma, seed=seed, confidence=confidence, horizon=horizon,
                deterministic=deterministic, resets=resets, progress=show, **settings,
            )  # fmt: skip
    except Interrupted as stop:
        tell_interrupted(stop, json_file, *_spooled(spool), report)
    tell(result, json_file, lambda: show_race(result))
    _draw(result, plot, report, json_file)


@dataclass(frozen=True)
class _Collecting:
    """Where episodes are collected: what the options say, all of them None for this process."""

    workers: int | None
    executor: str | None
    spool: Path | None

    @property
    def elsewhere(self) -> bool:
        return self != _Collecting(None, None, None)


def _loaded(
    name: str, policies: Sequence[str], normalize: Path | None, gamma: float | None, collecting: _Collecting
) -> tuple[Any, list[Any], dict[str, Any], float]:
    """The domain or environment, the policies, how to collect and what to warn of, and the discount.

    Workers make environments and policies for themselves, so for them both stay what the user has called them.
    """
    from evenroll.adapters.loading import load_any_policy, load_domain, load_environment
    from evenroll.adapters.normalization import load_normalization, unnormalised

    domain = load_domain(name)
    if domain is not None and normalize is not None:
        raise SpecError("--normalize is for environments; the policies of a domain see its states as they are")
    statistics = None if normalize is None else load_normalization(normalize)
    settings: dict[str, Any] = vars(collecting).copy()
    settings["warned"] = (
        () if statistics is not None else tuple(text for policy in policies for text in unnormalised(policy))
    )
    discount = (1.0 if domain is None else domain.gamma) if gamma is None else gamma
    if collecting.elsewhere:
        return name, list(policies), settings | {"normalization": statistics}, discount
    env = domain or load_environment(name, None, statistics)
    return env, [load_any_policy(policy) for policy in policies], settings, discount


def _spooled(spool: Path | None) -> tuple[str, str | None]:
    """What to say of finished episodes after an interrupt, and the command that goes on: the spool has all of them."""
    return ("not kept", None) if spool is None else (f"written to {spool}", goes_on())


def _same_file(first: str, second: str) -> bool:
    """Whether both are files with the same bytes."""
    files = Path(first), Path(second)
    return all(file.is_file() for file in files) and files[0].read_bytes() == files[1].read_bytes()


def _names(policies: Sequence[str]) -> list[str]:
    """Short names of some policies: the files' own names if they differ, otherwise what was given."""
    short = [Path(policy).stem if ":" not in policy else policy for policy in policies]
    names = short if len(set(short)) == len(short) else list(policies)
    if len(set(names)) < len(names):
        raise SpecError("the same policy was given twice; a race between a policy and itself has no end")
    return names


def _draw(result: Any, plot: Path | None, report: Path | None, json_file: str | None) -> None:
    if plot is not None:
        result.plot(plot)
        if json_file != "-":
            out.print(f"picture: {shown(plot)}")
    if report is not None:
        result.report(report, goes_on())
        if json_file != "-":
            out.print(f"report: {shown(report)}")
