"""A first run compiles only what it needs, and says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from numba import njit

from evenroll.engine.helpers import helper

MOST = 120  # functions, of which a third are Numba's own; there were 136 before helpers, each turned into machine code
MACHINE_CODE = 45  # functions that become machine code by themselves; there were 136

# Runs the command, and lists the functions that were compiled, and how many of them became machine code.
COUNTING = """
import json, sys
from numba.core import codegen, event

names, emitted = [], []

class Listener(event.Listener):
    def on_start(self, e):
        names.append(e.data["dispatcher"].py_func.__name__)

    def on_end(self, e):
        pass

event.register("numba:compile", Listener())
finalize = codegen.JITCodeLibrary._finalize_specific
codegen.JITCodeLibrary._finalize_specific = lambda library: (emitted.append(library.name), finalize(library))[1]
from evenroll.cli.app import main

sys.argv[0] = "evenroll"
try:
    main()
except SystemExit as left:
    print(json.dumps([left.code, names, len(emitted)]))
"""


def run(cache: Path) -> tuple[list[str], int, str]:
    command = [sys.executable, "-c", COUNTING, "evaluate", "cartpole", "--episodes", "100"]
    done = subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": str(cache)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code, names, emitted = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    return names, emitted, done.stderr


def test_a_first_evaluation_compiles_what_it_needs_and_says_so_once(tmp_path: Path) -> None:
    """The policy of cartpole is a softmax network, which `auto` balances: no table, no Gaussian, no shifted parameters."""
    names, emitted, said = run(tmp_path)
    assert len(names) <= MOST, sorted(names)
    assert emitted <= MACHINE_CODE
    unused = {"forward_mlp", "_at_both", "tame", "tilt_of_table", "learn_table", "score_gaussian", "softplus"}
    unused |= {"draw_categorical", "soften_categorical", "prepare_mlp", "refit_network"}
    assert not unused & set(names)
    assert said.count("compiling") == 1
    names, _, said = run(tmp_path)
    assert names == []
    assert "compiling" not in said


@helper
def twice(x: float) -> float:
    return 2.0 * x


@njit
def four_times(x: float) -> float:
    return twice(twice(x))


def test_a_helper_is_part_of_its_caller_and_plain_python_elsewhere() -> None:
    assert four_times(3.0) == 12.0
    assert twice(3.0) == 6.0
