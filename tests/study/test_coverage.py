"""Coverage studies do not depend on workers."""

from __future__ import annotations

from evenroll.study.coverage import coverage


def test_coverage_does_not_depend_on_workers():
    results = [coverage("cartpole", "ros/score", episodes=40, repeats=6, workers=w).to_json() for w in (1, 2)]
    assert results[0] == results[1]
