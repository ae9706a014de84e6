"""The sources that count for a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenroll.study.blocks import Work, resolve
from evenroll.study.sources import digest_of, reachable
from tests.helpers import WORK


def test_the_sources_that_count_are_those_a_trial_runs_through() -> None:
    estimator = resolve(Work("gridworld", "ros", ("mc",), (1.0,))).estimators[0].function
    found = reachable("evenroll.study.trials", type(resolve(WORK).sampler), estimator)
    wanted = {
        "collection.trial", "collection.step", "collection.rollouts", "engine.random", "samplers.ros",
        "estimators.monte_carlo", "policies.tabular", "study.trials",
    }  # fmt: skip
    assert {f"evenroll.{name}" for name in wanted} <= found
    without = {
        "study.figures", "study.report", "study.comparison_plot", "cli.app", "study.leaderboard", "samplers.auto",
        "estimators.fqe", "study.bench",
    }  # fmt: skip
    assert not {f"evenroll.{name}" for name in without} & found


def test_editing_a_source_changes_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "my_sampler.py"
    module.write_text("STRENGTH = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = digest_of("my_sampler")
    module.write_text("STRENGTH = 2\n")
    assert digest_of("my_sampler") != before
