"""Guard pages: the smallest step out of an array ends the process, and what stays inside gives the same results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.helpers import ROOT

STEP_OUT = """
import numpy as np
from numba import float64, int64
from evenroll.engine.pieces import compiled, pointer

def read(x, i):
    return pointer(x)[i]

f = compiled(read, float64(float64[::1], int64))
x = np.arange(5.0)
for i in range(5):
    assert f(x, i) == i
print("inside", flush=True)
f(x, OUT)
print("outside")
"""

RUN = """
from evenroll import Driver, TabularSoftmax, get_domain
from evenroll.samplers.table import get_sampler
import numpy as np
policy = TabularSoftmax(np.random.default_rng(0).normal(size=(16, 4)))
driver = Driver(policy, get_sampler("auto"), (0,), gamma=1.0, horizon=20, record_steps=True)
data = driver.run(get_domain("gridworld").environment(None), episodes=30)
print(data.actions.sum(), data.returns.sum(), data.log_b.sum())
"""


def child(code: str, side: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "EVENROLL_GUARD": side}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=env)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mprotect as Linux has it")
@pytest.mark.parametrize(("side", "place"), [("after", 5), ("before", -1)])
def test_a_step_out_of_an_array_ends_the_process(side: str, place: int) -> None:
    run = child(STEP_OUT.replace("OUT", str(place)), side)
    assert run.stdout == "inside\n", run.stderr
    assert run.returncode == -signal.SIGSEGV
    assert "outside" in child(STEP_OUT.replace("OUT", str(place)), "").stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mprotect as Linux has it")
def test_results_are_the_same() -> None:
    runs = [child(RUN, side) for side in ("", "after", "before")]
    assert all(run.returncode == 0 for run in runs), [run.stderr[-500:] for run in runs]
    assert runs[0].stdout == runs[1].stdout == runs[2].stdout
