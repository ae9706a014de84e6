"""What the paper's authors published."""

from __future__ import annotations

import pytest

from evenroll.study.published import published_curve, published_final


def test_published_numbers_agree_with_each_other() -> None:
    """The last point of a released curve is the table's entry, but for the bandit, which is another experiment."""
    for domain in ("gridworld", "cartpole", "cartpole-continuous"):
        for method in ("os/mc", "bpg/ois", "ros/mc"):
            curve, final = published_curve(domain, method), published_final("table3", method, domain)
            assert curve is not None
            assert final is not None
            assert curve["mse"][-1] == pytest.approx(final[0], rel=5e-3)
            assert curve["mse_se"][-1] == pytest.approx(final[1], rel=5e-3)
    assert published_curve("gridworld", "auto/mc") is None
