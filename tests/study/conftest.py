"""What tests of the study share: a very small run of `evenroll reproduce`."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock

from evenroll.study.experiments import QUICK, Roster
from evenroll.study.reproduce import reproduce

RUN = ["fig1", "fig2", "fig4", "fig5", "fig6", "fig10", "fig12", "table3", "table4", "theory"]  # one of each kind
SMALL = QUICK.limited(trials=3, budget=32.0)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A very small run, made once for all processes that test."""
    base = tmp_path_factory.getbasetemp()
    directory = (base if worker_id == "master" else base.parent) / "reproduction"
    with FileLock(f"{directory}.lock"):
        if not (directory / "report.html").exists():
            reproduce(RUN, directory, scale=SMALL, roster=Roster(), workers=2)
    return directory
