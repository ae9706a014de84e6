"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

SeedOption = Annotated[int, typer.Option(help="Base seed; the same seed gives the same numbers.", min=0)]
JsonOption = Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write JSON; - is standard output.")]
WorkersOption = Annotated[int | None, typer.Option(help="How many; default: all cores. Results do not depend on it.", min=1)]
ExecutorOption = Annotated[str, typer.Option(help="threads, processes or dask://HOST:PORT. Results do not depend on it.")]
