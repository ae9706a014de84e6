"""The theory on data."""

from __future__ import annotations

import pytest

from evenroll.study.charts import charts
from evenroll.study.claims import claims
from evenroll.study.evidence import Evidence
from evenroll.study.experiments import targets
from evenroll.study.laws import laws
from evenroll.study.ratios import FAILS, HOLDS
from evenroll.study.results import Results


def test_the_theory_is_judged_and_its_printed_bound_fails() -> None:
    target = targets()["theory"]
    verdicts = [(c.text.split(":")[0], c.verdict) for c in claims(Evidence({"theory": target}, Results({})))]
    assert [v for _, v in verdicts] == [HOLDS, HOLDS, HOLDS, HOLDS, FAILS, HOLDS]
    assert [len(c.series) > 1 for c in charts(target, Results({}))] == [True] * 5
    assert laws().counter_example[:2] == pytest.approx((4.0, 2.3548), abs=1e-3)
