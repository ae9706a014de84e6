"""`evenroll evaluate ENV`, `collect` and `diagnose`: anybody's environments and policies, and their data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenroll.cli.options import JsonOption, SeedOption

if TYPE_CHECKING:
    from evenroll.evaluation.evaluate import Progress
    from evenroll.evaluation.result import Evaluation

ENV_HELP = "Gymnasium id (CartPole-v1), or module:function that makes an environment."
POLICY_HELP = "policy.safetensors, a Stable-Baselines3 model.zip, or module:function."
EnvArgument = Annotated[str, typer.Argument(help=ENV_HELP, metavar="ENV")]
PolicyOption = Annotated[str, typer.Option("--policy", help=POLICY_HELP)]
SamplerOption = Annotated[str, typer.Option(help="auto, os, ros:alpha=…, off:delta=….")]
GammaOption = Annotated[float, typer.Option(help="Discount.")]
HorizonOption = Annotated[int | None, typer.Option(help="Cut episodes after so many steps.", min=1)]
EnvsOption = Annotated[int | None, typer.Option("--envs", help="Environments side by side, one shared balance.", min=1)]
InitialOption = Annotated[
    Path | None,
    typer.Option(help="Data to start from (.parquet, .safetensors, Minari): collect what makes the whole on-policy."),
]


@contextmanager
def live(total: int | None, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A line on standard error that shows how far it has come and what is known; nothing if it is not a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from evenroll.cli.app import err
    from evenroll.text.numbers import two_digits

    columns = (
        TextColumn("episodes"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def show(now: Any) -> None:
            text = f"{now.steps:,} steps"
            if now.result is not None:
                half = now.result.half_width
                text += f", {now.result.value:.5g}" + ("" if half is None else f" ± {two_digits(half)}")
                if now.result.gradient is not None:
                    text += f", sampling error {now.result.gradient:.2g}"
            bar.update(task, completed=now.episodes, description=text)

        yield show


def evaluate_environment(
    env_name: str, policy: str | None, *, sampler: str, estimator: str, episodes: int | None, steps: int | None,
    gamma: float | None, confidence: float, half_width: str | None, interval: str,
    force_interval: bool, bounds: tuple[float, float] | None, seed: int, horizon: int | None,
    envs: int | None, deterministic: bool, initial_data: Path | None, plot: Path | None,
    json_file: str | None,
) -> None:  # fmt: skip
    """Called by `evenroll evaluate` for whatever is not a built-in domain."""
    from evenroll.adapters.loading import load_any_policy, load_environment
    from evenroll.cli.app import _emit, _writable
    from evenroll.collection.recorder import Recorder
    from evenroll.collection.rollout_files import load_rollouts
    from evenroll.errors import CollectionFault, SpecError
    from evenroll.evaluation.evaluate import evaluate_with

    if policy is None:
        raise SpecError(f"{env_name} is not a built-in domain: give the policy to evaluate, --policy ({POLICY_HELP})")
    _writable(json_file, plot)
    env = load_environment(env_name, envs)
    initial = None if initial_data is None else load_rollouts(initial_data, 1.0 if gamma is None else gamma)
    collectors: list[Recorder] = []
    with live(episodes or (None if steps or half_width else 100), json_file == "-") as show:
        try:
            result = evaluate_with(
                env, load_any_policy(policy), sampler=sampler, estimator=estimator, episodes=episodes, steps=steps,
                gamma=gamma, seed=seed, confidence=confidence, half_width=half_width, interval=interval,
                force_interval=force_interval, bounds=bounds, horizon=horizon,
                initial=initial, deterministic=deterministic, progress=show,
                keep=collectors.append,
            )  # fmt: skip
        except CollectionFault as fault:
            raise _kept(fault, env_name) from None
    if plot is not None:
        from evenroll.evaluation.running_estimate import plot_running, running

        made = collectors[0]
        picture = running(made.rollouts(), made.model.engine, made.sampler, confidence)
        plot_running(picture, plot, f"{env_name}: {result}")
    _emit(result.to_json(), json_file)
    if json_file != "-":
        _show(result, plot)


def _kept(fault: Any, env_name: str) -> Any:
    """The fault, with the finished episodes written to a file that the message names."""
    from evenroll.collection.rollout_files import save_rollouts
    from evenroll.errors import EvenrollError

    if fault.rollouts is None or fault.rollouts.episodes == 0:
        return EvenrollError(str(fault))
    path = Path(f"{''.join(c if c.isalnum() or c in '-.' else '-' for c in env_name)}-partial.safetensors")
    save_rollouts(fault.rollouts, path)
    return EvenrollError(f"{fault}; written to {path}, to go on from with --initial-data")


def _show(result: Evaluation, plot: Path | None) -> None:
    from rich.markup import escape

    from evenroll.cli.app import _significant, out

    out.print(f"[bold]{escape(str(result))}[/bold]", soft_wrap=True)
    out.print(escape(result.in_words()), soft_wrap=True)
    out.print(
        f"{result.steps} steps ({result.terminated} terminated, {result.truncated} truncated, {result.unfinished} "
        f"unfinished), {result.sampler}/{result.estimator}, γ {result.gamma:g}, seed {result.seed}, "
        f"{escape(str(result.policy))}",
        soft_wrap=True,
    )
    others = ", ".join(f"{name} {value}" for name, value in result.quantities.items())
    out.print(f"undiscounted: {others}", soft_wrap=True)
    if result.gradient is not None:
        out.print(f"distance from on-policy: KL {_significant(result.kl)}, mean |∇| {_significant(result.gradient)}")
    if result.runs_away:
        out.print(
            f"[red]{escape(result.sampler)} runs away from the policy[/red] (KL {result.behavior_kl:.2g} a step): use auto"
        )
    if plot is not None:
        out.print(f"running estimate: {plot}")


def collect(
    env_name: EnvArgument,
    policy: PolicyOption,
    out_file: Annotated[Path, typer.Option("--out", help="NAME.parquet, NAME.safetensors, or directory NAME.minari.")],
    sampler: SamplerOption = "auto",
    episodes: Annotated[int, typer.Option(help="Trajectories to collect.", min=1)] = 100,
    gamma: GammaOption = 1.0,
    seed: SeedOption = 0,
    horizon: HorizonOption = None,
    envs: EnvsOption = None,
    initial_data: InitialOption = None,
) -> None:
    """Just collect: on-policy data, balanced, with log π_e and log π_b of every step."""
    from evenroll.adapters.loading import load_any_policy, load_environment
    from evenroll.adapters.vector_environments import spaces_of
    from evenroll.cli.app import _progress, _writable, out
    from evenroll.collection.environments import collect as run
    from evenroll.collection.recorder import Recorder
    from evenroll.collection.rollout_files import load_rollouts, save_minari, save_rollouts
    from evenroll.errors import CollectionFault, SpecError

    if out_file.suffix not in (".parquet", ".safetensors", ".minari"):
        raise SpecError(f"{out_file.name}: data is written as .parquet, .safetensors or .minari")
    if out_file.suffix == ".minari":
        if out_file.exists():
            raise SpecError(f"{out_file} exists already")
    else:
        _writable(out_file)
    env = load_environment(env_name, envs)
    observation_space, action_space = spaces_of(env)
    collector = Recorder(
        load_any_policy(policy), sampler, gamma=gamma, seed=seed, observation_space=observation_space,
        action_space=action_space, lanes=envs, horizon=horizon, keep_observations=True,
        initial=None if initial_data is None else load_rollouts(initial_data, gamma),
    )  # fmt: skip
    with _progress("episodes", False) as bar:
        try:
            for done in run(collector, env, episodes=episodes):
                bar(done, episodes)
        except CollectionFault as fault:
            raise _kept(fault, env_name) from None
    data = collector.rollouts()
    if out_file.suffix == ".minari":
        new = data if collector.initial is None else data.split_initial()[1]
        save_minari(new, out_file, observation_space, action_space, collector.last_observations())
    else:
        save_rollouts(data, out_file)
    out.print(
        f"{out_file}: {data.episodes} episodes, {data.steps} steps ({int(data.terminated.sum())} terminated, "
        f"{data.truncated} truncated)" + (f", of which {data.initial_episodes} initial" if data.initial_episodes else "")
    )


def difference(
    env_name: EnvArgument,
    policy: PolicyOption,
    against: Annotated[str, typer.Option(help="The other policy, given in the same way.")],
    sampler: SamplerOption = "auto",
    episodes: Annotated[int, typer.Option(help="Of each policy.", min=4)] = 100,
    gamma: GammaOption = 1.0,
    confidence: Annotated[float, typer.Option(help="Of the interval.")] = 0.95,
    seed: SeedOption = 0,
    horizon: HorizonOption = None,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="The policies' likeliest actions.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Which of two policies is better, and by how much: both meet the same starts, so that luck with those cancels."""
    from rich.markup import escape

    from evenroll.adapters.loading import load_any_policy, load_environment
    from evenroll.cli.app import _emit, _writable, out
    from evenroll.errors import CollectionFault
    from evenroll.evaluation.difference import difference as run

    _writable(json_file)
    with live(episodes, json_file == "-") as show:
        try:
            result = run(
                load_environment(env_name, None), load_any_policy(policy), load_any_policy(against), sampler=sampler,
                episodes=episodes, gamma=gamma, seed=seed, confidence=confidence, horizon=horizon,
                deterministic=deterministic, progress=show,
            )  # fmt: skip
        except CollectionFault as fault:
            raise _kept(fault, env_name) from None
    _emit(result.to_json(), json_file)
    if json_file != "-":
        out.print(f"[bold]{escape(str(result))}[/bold]", soft_wrap=True)
        out.print(escape(result.in_words()), soft_wrap=True)
        if result.alone is not None:
            out.print(f"With starts of their own it would be ± {result.alone:.2g}.")


def diagnose(
    data_file: Annotated[
        Path, typer.Argument(help="Rollouts: .parquet, .safetensors or a Minari directory.", metavar="DATA")
    ],
    policy: PolicyOption,
    env_name: Annotated[
        str | None, typer.Option("--env", help="Where the policy's spaces come from, if it has none itself.")
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="Discount; default: the data's, or 1.")] = None,
    json_file: JsonOption = None,
) -> None:
    """How far a data set is from on-policy: what is over- and under-sampled where, and what it would take to repair it."""
    from rich.markup import escape
    from rich.table import Table

    from evenroll.adapters.loading import load_any_policy, load_environment
    from evenroll.adapters.model import as_model
    from evenroll.adapters.vector_environments import spaces_of
    from evenroll.cli.app import _emit, _significant, _writable, err, out
    from evenroll.collection.rollout_files import load_rollouts
    from evenroll.evaluation.diagnosis import diagnose as run

    _writable(json_file)
    data = load_rollouts(data_file, gamma)
    spaces = (None, None) if env_name is None else spaces_of(load_environment(env_name))
    model = as_model(load_any_policy(policy), *spaces)
    with err.status("looking at the data"):
        result = run(data, model)
    _emit(result.to_json(), json_file)
    if json_file == "-":
        return
    out.print(f"[bold]{escape(result.in_words())}[/bold]", soft_wrap=True)
    out.print(
        f"{result.episodes} episodes, {result.steps} steps; KL {_significant(result.kl)}, mean |∇| {result.gradient:.3g}; "
        f"excess {result.excess:.3g} over {result.directions} directions"
    )
    table = Table(title=f"farthest off (chance alone: |z| up to about {result.chance:.1f})", title_justify="left")
    table.add_column("where")
    table.add_column("action")
    for name in ("taken", "expected", "z"):
        table.add_column(name, justify="right")
    for cell in result.cells:
        colour = "red" if abs(cell.z) > result.chance else "default"
        table.add_row(
            cell.where, cell.action, f"{cell.taken:.4g}", f"{cell.expected:.4g}", f"[{colour}]{cell.z:+.1f}[/{colour}]"
        )
    out.print(table)
