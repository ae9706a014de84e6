"""The leaderboard from the command line."""

from __future__ import annotations

import subprocess
import sys


def test_command(tmp_path) -> None:
    arguments = [
        "leaderboard",
        "--domains",
        "gridworld",
        "--method",
        "os/mc",
        "--method",
        "roa/mc",
        "--quick",
        "--trials",
        "3",
    ]
    run = subprocess.run([sys.executable, "-m", "evenroll", *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "roa:rho=1/mc" in run.stdout
    assert (tmp_path / "leaderboard" / "leaderboard.png").exists()
