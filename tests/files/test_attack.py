"""The attacks of `make attack` that take little time to make: each held off within a second and 200 MB."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers import ROOT


def test_attacks_are_held_off() -> None:
    """In a child process: several of them used to end it by a signal, or to fill the memory."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("torch")
    run = subprocess.run([sys.executable, "-m", "tools.attack", "--short"], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 attacks were not held off" in run.stdout
