"""What a target costs."""

from __future__ import annotations

from pathlib import Path

from evenroll.study.blocks import Work
from evenroll.study.costs import _timings, cost, plans
from evenroll.study.experiments import QUICK, targets


def test_costs_are_positive_and_grow_with_the_budget() -> None:
    for plan in plans(targets(QUICK).values(), 2, None):
        assert plan.seconds >= 0.0
    small, large = (Work("cartpole", "ros", ("wris", "kl", "grad_norm"), (1.0, b)) for b in (64.0, 8192.0))
    assert 20 * cost(small) < cost(large)


def test_damaged_timings_are_no_timings(tmp_path: Path) -> None:
    for text in ("[]", '{"seconds": 1}', '{"seconds": {"fig1": "long"}}', "[" * 100_000, "{", '{"seconds": {"fig1": [1]}}'):
        (tmp_path / "timings.json").write_text(text)
        assert _timings(tmp_path) == {}
