"""The command line's entry point: which commands there are, and what becomes of an error."""

from __future__ import annotations

import copy
import functools
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from evenroll import __version__
from evenroll.cli.console import err, out, refuse, tell_warning
from evenroll.cli.coverage import coverage
from evenroll.cli.data import collect, diagnose
from evenroll.cli.deciding import best, difference, gate
from evenroll.cli.evaluate import evaluate
from evenroll.cli.leaderboard import leaderboard
from evenroll.cli.plan import plan
from evenroll.cli.put_off import put_off
from evenroll.cli.reproduce import reproduce, results
from evenroll.cli.signals import exit_at_once, exit_code, leave_if_interrupted
from evenroll.cli.study import bench, compare, train, value
from evenroll.engine.compiling import when_compiling
from evenroll.errors import EvenrollError

COMPILING = "compiling for this processor, which takes some seconds; the machine code is kept for the next time"

app = typer.Typer(
    name="evenroll",
    help="What a policy is worth, from fewer environment steps.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Every command with its examples, in the order in which `evenroll --help` shows the commands.
COMMANDS: tuple[tuple[Callable[..., None], tuple[str, ...]], ...] = (
    (
        evaluate,
        (
            "evenroll evaluate gridworld --sampler ros:alpha=1000 --episodes 500",
            "evenroll evaluate CartPole-v1 --policy model.zip --episodes 100 --gamma 0.99 --report result.html",
        ),
    ),
    (plan, ("evenroll plan CartPole-v1 --policy model.zip --gamma 0.99 --half-width 2%",)),
    (
        difference,
        (
            "evenroll difference CartPole-v1 --policy new.zip --against old.zip",
            "evenroll difference CartPole-v1 --policy new.zip --against old.zip --until-decided --most 200 --margin 2",
        ),
    ),
    (gate, ("evenroll gate CartPole-v1 --policy new.zip --against old.zip --margin 5 --most 100",)),
    (best, ("evenroll best CartPole-v1 --policy a.zip --policy b.zip --policy c.zip --plot race.png",)),
    (collect, ("evenroll collect CartPole-v1 --policy model.zip --out data.parquet",)),
    (diagnose, ("evenroll diagnose data.parquet --policy model.zip",)),
    (
        compare,
        (
            "evenroll compare gridworld --method os/mc --method ros:alpha=1000/mc --method init+ros/mc --trials 200 "
            "--plot mse.png",
        ),
    ),
    (
        coverage,
        (
            "evenroll coverage cartpole --sampler ros --estimator score --episodes 512 --repeats 2000",
            "evenroll coverage CartPole-v1 --policy model.zip --gamma 0.99 --episodes 32 --episodes 64 --repeats 200",
        ),
    ),
    (leaderboard, ("evenroll leaderboard --quick --domains gridworld --out results",)),
    (
        reproduce,
        (
            "evenroll reproduce fig2 table3 theory --quick --out reproduction",
            "evenroll reproduce all --decide --minutes 60 --out reproduction",
        ),
    ),
    (results, ("evenroll results reproduction --export trials.csv",)),
    (value, ("evenroll value cartpole --policy mine.safetensors --episodes 1000000",)),
    (train, ("evenroll train cartpole --seed 1 --out my-cartpole.safetensors",)),
    (bench, ("evenroll bench --json bench.json",)),
)


def stoppable(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which exits as a shell expects when a signal asks it to stop."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        put_off()
        try:
            command(*arguments, **options)
        except KeyboardInterrupt as stop:
            err.print(f"interrupted{f': {stop}' if str(stop) else ''}", soft_wrap=True)
            raise typer.Exit(exit_code()) from None

    return run


def flowing(text: str) -> str:
    """A docstring without the line breaks of its source: the terminal has a width of its own."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


for command, examples in COMMANDS:
    word = "Example" if len(examples) == 1 else "Examples"
    epilog = f"{word}: " + "\n\n".join(f"[cyan]{example}[/cyan]" for example in examples)
    app.command(help=flowing(command.__doc__ or ""), epilog=epilog)(stoppable(command))


def _version(show: bool) -> None:
    if show:
        out.print(f"evenroll {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    pass


def only(word: str) -> typer.Typer:
    """The app with the command of this name alone, because typer reads all options of all commands that there are.

    If there is none of this name, or if a shell asks for completions, it is the whole app.
    """
    named = [] if "_EVENROLL_COMPLETE" in os.environ else [c for c in app.registered_commands if _name(c) == word]
    alone = copy.copy(app)
    alone.registered_commands = named or app.registered_commands
    return alone


def _name(command: Any) -> str:
    return command.name or command.callback.__name__


def main() -> None:
    """Run the command line. A user's mistake becomes one line on standard error and exit code 2 (see docs/cli.md)."""
    exit_at_once()
    # With colorama installed, Numba spends 4 % of its time on colours for errors that never come.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    code: Any = 0
    warnings.showwarning = tell_warning
    when_compiling(lambda: err.print(COMPILING, soft_wrap=True), afterwards=gc.freeze)
    try:
        words = sys.argv[1:] or ["--help"]
        code = only(words[0])(words, "evenroll", standalone_mode=False)
    except SystemExit as left:  # ours come as a return value
        if isinstance(left.__context__, BrokenPipeError):  # whoever reads our help (head, less) has seen enough
            os._exit(128 + signal.SIGPIPE)
        if "_EVENROLL_COMPLETE" in os.environ:  # typer has answered a shell, and leaves in this way
            raise
        refuse(f"something that was run (an environment, a policy, a module of yours) called sys.exit({left.code!r})")
    except (EvenrollError, OSError) as error:
        refuse(str(error))
    except MemoryError:
        refuse("not enough memory")
    except Exception as error:
        message: Any = getattr(error, "format_message", None)  # the parser's own errors have it
        if message is None:
            raise
        context = getattr(error, "ctx", None)
        refuse(f"{message()} ({'evenroll' if context is None else context.command_path} --help)")
    finally:
        exit_at_once()  # nothing is left to lose
    leave_if_interrupted()
    raise SystemExit(code or 0)
