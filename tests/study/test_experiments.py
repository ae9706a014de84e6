"""The paper's experiments as values: which there are, how large they are, and what they share."""

from __future__ import annotations

import pytest

from evenroll.study.blocks import Work, resolve
from evenroll.study.costs import cost
from evenroll.study.experiments import DOMAINS, FULL, METHODS, QUICK, Roster, targets
from evenroll.study.targets import PaperTarget

NAMES = [*(f"fig{i}" for i in range(1, 15)), "table3", "table4", "theory"]


def works(target: PaperTarget) -> set[Work]:
    return set(target.wanted())


def test_every_target_of_the_paper_is_there_and_work_is_shared() -> None:
    found = targets()
    assert list(found) == NAMES
    assert works(found["fig2"]) == works(found["fig10"]) < works(found["table3"])
    assert works(found["fig3"]) == works(found["fig11"]) == works(found["table4"])
    assert works(found["fig6"]) == works(found["fig8"])
    assert works(found["fig7"]) == works(found["fig9"])
    assert works(found["fig1"]) < works(found["fig6"]) | works(found["fig7"])
    assert works(found["fig13"]) == works(found["fig2"]) | works(found["fig6"])


def test_full_size_is_the_papers() -> None:
    for name in ("fig2", "fig3", "fig6", "fig7"):
        for work, trials in targets()[name].wanted().items():
            known = resolve(work)
            estimates = known.domain.name == "bandit" and not known.sampling_error
            assert trials == (5000 if estimates else 200)  # where 200 could not show the published difference
            points = [int(known.truth.mean_length * 2**i) for i in range(14)]
            assert list(known.checkpoints) == ([0] if known.initial else []) + points


def test_figure_14_has_as_many_trials_as_each_fit_can_afford() -> None:
    for scale, closed, small in (
        (FULL, 200, 40),
        (QUICK, 20, 5),
        (FULL.limited(100, None), 100, 40),
        (FULL.limited(7, None), 7, 7),
    ):
        found = {line.work.measures[0]: line.trials for panel in targets(scale)["fig14"].panels for line in panel.lines}
        assert (found["fqe"], found["fqe-net-small"]) == (closed, small)
    wanted = targets()["fig14"].wanted()
    small_minutes = sum(n * cost(work) for work, n in wanted.items() if work.measures == ("fqe-net-small",)) / 60
    assert 6 < small_minutes < 16
    assert {n for work, n in wanted.items() if work.measures == ("fqe-net",)} == {4}


@pytest.mark.parametrize(
    ("domain", "collect", "alpha"),
    [("bandit", "ros", 1e4), ("gridworld", "ros", 1e3), ("gridworld", "init+ros", 1e4), ("cartpole", "ros", 10.0),
     ("cartpole-continuous", "init+ros", 0.1)],
)  # fmt: skip
def test_step_sizes_are_those_of_tables_1_and_2(domain: str, collect: str, alpha: float) -> None:
    name = "fig3" if collect.startswith("init+") else "fig2"
    (work,) = [w for w in works(targets()[name]) if w.domain == domain and w.collect == collect]
    assert resolve(work).sampler.alpha == alpha  # type: ignore[attr-defined]


def test_one_more_method_or_domain_is_in_every_figure() -> None:
    roster = Roster((*DOMAINS, "gridworld:noise=1"), (*METHODS, "roa/mc"))
    for name, target in targets(QUICK, roster).items():
        if name not in ("fig1", "fig4", "fig5", "fig12", "theory"):  # those name their domains
            assert "gridworld:noise=1" in [panel.domain for panel in target.panels], name
        for panel in target.panels:
            works = [line.work for line in panel.lines] + [work for sweep in panel.sweeps for work in sweep.works]
            assert any(work.collect.endswith("roa") for work in works), name
