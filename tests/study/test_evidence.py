"""What claims are judged by: checkpoints, medians and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.study.blocks import Work
from evenroll.study.evidence import Evidence, medians_compared
from evenroll.study.experiments import QUICK, targets
from evenroll.study.parts import median_interval
from evenroll.study.ratios import FAILS, HOLDS, UNDECIDED
from tests.study.invented import exact


def test_the_interval_of_a_median_is_of_order_statistics() -> None:
    """Of 0 … 99 these are number 50 ± 9.8, rounded outwards. Values that are missing do not count."""
    values = np.random.default_rng(0).permutation(100).astype(float)
    assert median_interval(values) == (40.0, 60.0)
    assert median_interval(np.concatenate([values, [np.nan] * 7])) == (40.0, 60.0)
    assert median_interval(np.array([3.0, 1.0])) == (1.0, 3.0)


@pytest.mark.parametrize(("ratio", "verdict"), [(0.2, HOLDS), (0.5, UNDECIDED), (2.0, UNDECIDED), (4.0, FAILS)])
def test_medians_differ_where_their_intervals_do_not_meet(ratio: float, verdict: str) -> None:
    """Exact squared errors are ½ and 1½ times the MSE, and the median's interval reaches from one to the other."""
    target = targets(QUICK)["fig10"]
    found = exact(target, lambda work: 0.01 * (ratio if work.collect == "ros" else 1.0))
    judged = medians_compared(Evidence({"fig10": target}, found), "fig10", "ros/mc", "os/mc")
    assert judged.verdict == verdict
    assert len(judged.numbers) == 4


def test_evidence_is_found_by_panel_method_and_checkpoint() -> None:
    target = targets(QUICK)["fig2"]

    def mse(work: Work) -> np.ndarray:
        return 0.01 / np.arange(1, 10)

    evidence = Evidence({"fig2": target}, exact(target, mse))
    panel = evidence.panels("fig2")[0]
    assert evidence.place(panel, 32.0) == 5
    assert evidence.place(panel, 33.0) is None
    early = evidence.at(panel, "ros/mc", 5)
    assert early is not None
    assert early.value == pytest.approx(0.01 / 6)
    assert early.se == pytest.approx(0.5 * 0.01 / 6 / 7)  # half of it, by √49
    assert evidence.at(panel, "nobody/mc") is None
