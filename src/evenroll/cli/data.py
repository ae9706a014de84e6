"""`evenroll collect`, which writes data, and `evenroll diagnose`, which looks at data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from evenroll.cli.console import emit, err, out, progress_bar, shown, significant, tell_warning, writable
from evenroll.cli.keeping import goes_on, keep, kept, places
from evenroll.cli.options import (
    AnyExecutorOption,
    AnyWorkersOption,
    EnvArgument,
    EnvsOption,
    GammaOption,
    HorizonOption,
    InitialOption,
    JsonOption,
    NormalizeOption,
    PolicyOption,
    SamplerOption,
    SeedOption,
    SpoolOption,
)
from evenroll.cli.signals import exit_code
from evenroll.errors import CollectionFault, EvenrollError

if TYPE_CHECKING:
    from evenroll.collection.rollouts import Rollouts
    from evenroll.evaluation.diagnosis import Diagnosis


def collect(
    env_name: EnvArgument,
    policy: PolicyOption,
    out_file: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="NAME.parquet, NAME.safetensors, or directory NAME.minari.")
    ],
    sampler: SamplerOption = "auto",
    episodes: Annotated[int, typer.Option(help="Trajectories to collect.", min=1, metavar="N")] = 100,
    gamma: GammaOption = 1.0,
    seed: SeedOption = 0,
    horizon: HorizonOption = None,
    envs: EnvsOption = None,
    initial_data: InitialOption = None,
    normalize: NormalizeOption = None,
    workers: AnyWorkersOption = None,
    executor: AnyExecutorOption = None,
    spool: SpoolOption = None,
) -> None:
    """Just collect: on-policy data, balanced, with log π_e and log π_b of every step."""
    from evenroll.adapters.loading import load_any_policy, load_environment
    from evenroll.adapters.normalization import load_normalization, unnormalised
    from evenroll.adapters.surroundings import warnings_of
    from evenroll.adapters.vector_environments import spaces_of
    from evenroll.collection.environments import collect as run
    from evenroll.collection.recorder import Recorder
    from evenroll.collection.rollout_files import check_target, load_rollouts, save_minari, save_rollouts
    from evenroll.evaluation.workers import WorkersSource, named_source

    check_target(out_file)
    statistics = None if normalize is None else load_normalization(normalize)
    settings: dict[str, Any] = {"gamma": gamma, "seed": seed, "horizon": horizon}
    settings["initial"] = None if initial_data is None else load_rollouts(initial_data, gamma)
    source = named_source(
        env_name, policy, sampler, workers, executor, spool, envs, normalization=statistics, keep=True, resets=0, **settings
    )
    env = load_environment(env_name, envs, statistics) if source is None else source.env
    for text in () if source is not None else (*(unnormalised(policy) if statistics is None else ()), *warnings_of(env)):
        tell_warning(text)  # a source tells of them itself
    observation_space, action_space = spaces_of(env)
    collector: Recorder | WorkersSource
    if source is None:
        collector = Recorder(
            load_any_policy(policy), sampler, observation_space=observation_space, action_space=action_space, lanes=envs,
            keep_observations=True, **settings,
        )  # fmt: skip
        collecting = run(collector, env, episodes=episodes)
    else:
        collector, collecting = source, source.collect(episodes, None, at_once=False)
    if out_file.suffix == ".minari" and collector.model.play is not None:
        raise EvenrollError("the data will have the policy's noise for actions: write it to .parquet or .safetensors")
    where = places(out_file)

    def write(data: Rollouts) -> None:
        if out_file.suffix != ".minari":
            return save_rollouts(data, out_file)
        new = data if collector.initial is None else data.split_initial()[1]
        last = collector.last_observations()
        save_minari(new, out_file, observation_space, action_space, last, actions=collector.model.actions)

    with progress_bar("episodes", False, keeps=True) as bar:
        try:
            for done in collecting:
                bar(done, episodes)
            data = collector.rollouts()
            try:
                collector.check_copy()
                write(data)
            except Exception as error:
                error.rollouts = data  # type: ignore[attr-defined]
                raise kept(error, env_name, where) from None
        except CollectionFault as fault:
            raise kept(fault, env_name, where) from None
        except KeyboardInterrupt:  # also while the data is being written
            so_far = collector.rollouts(unfinished=False)
            if spool is not None:
                err.print(f"interrupted after {collector.episodes} of {episodes} episodes, which are in {shown(spool)}")
                err.print(f"go on with: {escape(goes_on())}", soft_wrap=True)
                raise typer.Exit(exit_code()) from None
            path, said = keep(so_far, env_name, where) if collector.episodes else (initial_data, "no episode had finished")
            err.print(f"interrupted after {collector.episodes} of {episodes} episodes: {shown(said)}", soft_wrap=True)
            if path is not None:
                command = goes_on(initial_data=path, episodes=max(episodes - collector.episodes, 1))
                err.print(f"go on with: {escape(command)}", soft_wrap=True)
            raise typer.Exit(exit_code()) from None
        finally:
            if source is not None:
                source.close()
    out.print(
        f"{shown(out_file)}: {data.episodes} episodes, {data.steps} steps ({int(data.terminated.sum())} terminated, "
        f"{data.truncated} truncated)" + (f", of which {data.initial_episodes} initial" if data.initial_episodes else "")
    )


def diagnose(
    data_file: Annotated[
        Path, typer.Argument(help="Rollouts: .parquet, .csv, .safetensors or a Minari directory.", metavar="DATA")
    ],
    policy: PolicyOption,
    env_name: Annotated[
        str | None, typer.Option("--env", metavar="ENV", help="Where the policy's spaces come from, if it has none itself.")
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="Discount; default: the data's, or 1.", metavar="X")] = None,
    json_file: JsonOption = None,
) -> None:
    """How far a data set is from on-policy: what is over- and under-sampled where, and what it would take to repair it."""
    from evenroll.adapters.loading import load_any_policy, load_environment
    from evenroll.adapters.model import as_model
    from evenroll.adapters.vector_environments import spaces_of
    from evenroll.collection.rollout_files import load_rollouts
    from evenroll.evaluation.diagnosis import diagnose as run

    writable(json_file)
    data = load_rollouts(data_file, gamma)
    spaces = (None, None) if env_name is None else spaces_of(load_environment(env_name))
    model = as_model(load_any_policy(policy), *spaces)
    with err.status("looking at the data"):
        result = run(data, model)
    if json_file != "-":
        _show_diagnosis(result)
    emit(result.to_json(), json_file)


def _show_diagnosis(result: Diagnosis) -> None:
    out.print(f"[bold]{shown(result.in_words())}[/bold]", soft_wrap=True)
    out.print(
        f"{result.episodes} episodes, {result.steps} steps; KL {significant(result.kl)}, mean |∇| {result.gradient:.3g}; "
        f"excess {result.excess:.3g} (on-policy 1 ± {result.excess_error:.1g}) over {result.directions} directions"
    )
    table = Table(title=f"farthest off (chance alone: |z| up to about {result.chance:.1f})", title_justify="left")
    table.add_column("where")
    table.add_column("action")
    for name in ("taken", "expected", "z"):
        table.add_column(name, justify="right")
    for cell in result.cells:
        colour = "red" if abs(cell.z) > result.chance else "default"
        table.add_row(
            shown(cell.where),
            shown(cell.action),
            f"{cell.taken:.4g}",
            f"{cell.expected:.4g}",
            f"[{colour}]{cell.z:+.1f}[/{colour}]",
        )
    out.print(table)
