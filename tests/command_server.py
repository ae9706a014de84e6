"""`python -m evenroll …` in processes of their own, without loading Python, NumPy and Numba anew for each.

    python -m tests.command_server

It has loaded what the commands load. For every line of JSON that it reads it forks. The child runs evenroll as `python -m`
does, and ends as any Python ends; the server says with which code.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import sys

LOADED = (
    "scipy.stats", "safetensors.numpy", "rich.table", "rich.progress", "typer._adapters", "evenroll.cli.app",
    "evenroll.adapters.loading", "evenroll.evaluation.evaluate", "evenroll.study",
)  # fmt: skip


def serve() -> bool:
    """Whether this is a child, which has a command to run, in the directory and with the files that it was told."""
    answers = os.dup(1)
    while line := sys.stdin.readline():
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            for number, path in enumerate((os.devnull, asked["out"], asked["err"])):
                file = os.open(path, os.O_RDWR | os.O_APPEND)
                os.dup2(file, number)
                os.close(file)
            os.close(answers)
            os.chdir(asked["cwd"])
            sys.path[0] = asked["cwd"]
            sys.argv = ["evenroll", *asked["arguments"]]
            return True
        os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return False


if __name__ == "__main__":
    for name in LOADED:
        with contextlib.suppress(ImportError):  # a part of another version of typer
            importlib.import_module(name)
    gc.freeze()  # what was loaded is shared with the children, and not looked through by each of them
    if serve():
        runpy.run_module("evenroll", run_name="__main__", alter_sys=True)
