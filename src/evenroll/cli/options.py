"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenroll.cli import completion
from evenroll.domains.registration import DOMAINS

DOMAIN_HELP = (
    f"{', '.join(DOMAINS)}, or module:function that makes a domain; parameters after a colon, e.g. gridworld:noise=1"
)
ENV_HELP = "Gymnasium id (CartPole-v1, FrozenLake-v1:is_slippery=false), or module:function that makes an environment."
POLICY_HELP = "policy.safetensors, a Stable-Baselines3 model.zip, or module:function."
SAMPLER_HELP = "auto, os, ros:alpha=…, ros-head, roa, props, off:delta=…; on a domain also bpg and others (see the docs)."

DomainArgument = Annotated[str, typer.Argument(help=DOMAIN_HELP, metavar="DOMAIN", autocompletion=completion.domains)]
EnvArgument = Annotated[str, typer.Argument(help=ENV_HELP, metavar="ENV", autocompletion=completion.environments)]
AnyArgument = Annotated[
    str,
    typer.Argument(
        help=f"{DOMAIN_HELP}; or ENV: {ENV_HELP}", metavar="DOMAIN|ENV", autocompletion=completion.domains_and_environments
    ),
]

PolicyFileOption = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="Policy (.safetensors); default: the shipped one.")
]
PolicyOption = Annotated[str, typer.Option("--policy", metavar="POLICY", help=POLICY_HELP)]
SamplerOption = Annotated[str, typer.Option(help=SAMPLER_HELP, metavar="SAMPLER", autocompletion=completion.samplers)]
GammaOption = Annotated[float, typer.Option(help="Discount.", metavar="X")]
HorizonOption = Annotated[int | None, typer.Option(help="Cut episodes after so many steps.", min=1, metavar="N")]
EnvsOption = Annotated[
    int | None, typer.Option("--envs", help="Environments side by side, one shared balance.", min=1, metavar="N")
]
InitialOption = Annotated[
    Path | None,
    typer.Option(
        help="Data to start from (.parquet, .csv, .safetensors, Minari): collect what makes the whole on-policy.",
        metavar="FILE",
    ),
]
NormalizeOption = Annotated[
    Path | None,
    typer.Option(
        "--normalize",
        metavar="FILE",
        help="Statistics of VecNormalize: its .pkl (read, not run), or what evenroll.sb3.export_normalization wrote.",
    ),
]
ResetsOption = Annotated[
    int | None,
    typer.Option(
        help="Further resets that show which starts there are; 0: none. Default: one for 3 steps, if they are quick.",
        min=0,
        metavar="N",
    ),
]
ConfidenceOption = Annotated[float, typer.Option(help="Of the interval.", metavar="X")]
IntervalOption = Annotated[
    str, typer.Option(help="auto, score; t, bca or bernstein for independent trajectories.", metavar="KIND")
]
ForceOption = Annotated[
    bool, typer.Option("--force-interval", help="An i.i.d. interval although trajectories depend on each other.")
]
SeedOption = Annotated[int, typer.Option(help="Base seed; the same seed gives the same numbers.", min=0, metavar="N")]
JsonOption = Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write JSON; - is standard output.")]
ReportOption = Annotated[
    Path | None, typer.Option(help="All that was found as one web page, with pictures (.html).", metavar="FILE")
]
WorkersOption = Annotated[
    int | None, typer.Option(help="How many; default: all cores. Results do not depend on it.", min=1, metavar="N")
]
ExecutorOption = Annotated[
    str, typer.Option(help="threads, processes, dask://HOST:PORT or tls://HOST:PORT; same results.", metavar="WHERE")
]
AnyWorkersOption = Annotated[
    int | None,
    typer.Option("--workers", help="Collect on so many workers at once; same results for any number.", min=1, metavar="N"),
]
AnyExecutorOption = Annotated[
    str | None,
    typer.Option(
        "--executor", help="Where workers run: threads (default), processes, dask://HOST:PORT or tls://HOST:PORT.",
        metavar="WHERE",
    ),
]  # fmt: skip
SpoolOption = Annotated[
    Path | None,
    typer.Option(
        help="Directory in which workers keep what is finished: a run that was killed goes on from there.", metavar="DIR"
    ),
]
