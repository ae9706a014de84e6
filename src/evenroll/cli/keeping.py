"""Keeping data: what was collected before a fault or an interrupt is written to a file, and `--initial-data` goes on."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenroll.cli.console import err, shown
from evenroll.cli.signals import undisturbed
from evenroll.errors import CollectionFault, EvenrollError

if TYPE_CHECKING:
    from evenroll.collection.rollouts import Rollouts


def places(*targets: str | Path | None) -> list[Path]:
    """Where data is kept if a command does not come to its end: beside what it was to write, else here, else with temporary
    files."""
    beside = [Path(target).parent for target in targets if target is not None and str(target) != "-"]
    return list(dict.fromkeys([*beside, Path(), Path(tempfile.gettempdir())]))


def kept(error: Exception, name: str, where: Sequence[Path]) -> Exception:
    """The error, with the finished episodes written to a file that the message names. The cause comes first.

    An error that is none of ours comes back as it is, for its traceback; the file is then told before it.
    """
    data = getattr(error, "rollouts", None)
    ours = isinstance(error, (EvenrollError, OSError, MemoryError))
    cause = str(error) or "not enough memory"
    if data is None or data.episodes == 0:
        return EvenrollError(cause) if ours else error
    path, said = keep(data, name, where)
    more = "" if path is None else f", to go on from with --initial-data {shlex.quote(str(path))}"
    they = "they" if isinstance(error, CollectionFault) else "the episodes"
    if not ours:
        err.print(shown(f"{type(error).__name__}: {they} were {said}{more}"), soft_wrap=True)
        return error
    return EvenrollError(f"{cause}; {they} were {said}{more}")


def keep(data: Rollouts, name: str, where: Sequence[Path]) -> tuple[Path | None, str]:
    """Write data to the first of these places that takes it, under a name of its own. Returns (file, what to say of it)."""
    if data.observations is None:
        return None, "not kept: their observations are too large"
    with undisturbed():
        return _written(data, name, where)


def _written(data: Rollouts, name: str, where: Sequence[Path]) -> tuple[Path | None, str]:
    from evenroll.collection.rollout_files import save_rollouts

    troubles = []
    for directory in where:
        try:
            path = _reserved(directory, name)
        except OSError as error:
            troubles.append(f"cannot write to {directory}: {error.strerror or error}")
            continue
        try:
            save_rollouts(data, path)
            return path, f"written to {path}"
        except BaseException as error:
            path.unlink(missing_ok=True)
            if not isinstance(error, EvenrollError):
                raise
            troubles.append(str(error))
    return None, f"not kept: {'; '.join(troubles)}"


def keep_pair(pair: tuple[Rollouts, Rollouts] | None, name: str, where: Sequence[Path]) -> tuple[list[Path | None], str]:
    """The same for what two policies have collected. Returns (a file for each, what to say of both)."""
    files: list[Path | None] = []
    not_kept = []
    for data, which in zip(pair or (), ("", "-against"), strict=False):
        path, about = keep(data, name + which, where) if data.episodes else (None, "")
        files.append(path)
        not_kept += [about] if data.episodes and path is None else []
    there = [str(path) for path in files if path is not None]
    said = [f"written to {' and '.join(there)}"] if there else []
    return files or [None, None], ", and ".join(said + not_kept)


def _reserved(directory: Path, name: str) -> Path:
    """A new, empty file NAME-partial.safetensors, or NAME-partial-2.safetensors …: nothing is ever written over."""
    stem = "".join(c if c.isalnum() or c in "-." else "-" for c in name).lstrip("-.") or "data"
    number = 1
    while True:
        path = directory / f"{stem}-partial{'' if number == 1 else f'-{number}'}.safetensors"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            return path
        except FileExistsError:
            number += 1


def goes_on(words: Sequence[str] | None = None, **options: object) -> str:
    """The command line that was given, with these options in place of what they were; it can be pasted into a shell."""
    kept_words = list(sys.argv[1:] if words is None else words)
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        for i in reversed(range(len(kept_words))):
            if kept_words[i] == option:
                del kept_words[i : i + 2]
            elif kept_words[i].startswith(f"{option}="):
                del kept_words[i]
        if value is not None:
            kept_words += [option, str(value)]
    return shlex.join(["evenroll", *kept_words])
