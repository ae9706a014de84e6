"""Claims about step sizes, noise and ε, judged on results whose numbers are known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from evenroll.study.blocks import Work, resolve
from evenroll.study.claims import claims
from evenroll.study.evidence import Evidence
from evenroll.study.experiments import METHODS, QUICK, Roster, targets
from evenroll.study.ratios import FAILS, HOLDS, UNDECIDED
from tests.study.invented import exact, invented


def test_other_methods_do_not_enter_claims_about_step_sizes() -> None:
    target = targets(QUICK.limited(20, 32.0), Roster(methods=(*METHODS, "os/score", "ros:alpha=5/mc")))["fig4"]
    found = invented(target, {"os": 1.0, "auto": 1.0, "ros": 0.5}, trials=20)
    larger = next(c for c in claims(Evidence({"fig4": target}, found)) if "a larger α gives" in c.text)
    assert [n.partition(" /")[0] for n in larger.numbers] == [f"ROS-MC, α = {10**i}" for i in range(5)]


def verdicts(name: str, mse: Callable[[Work], float]) -> dict[str, str]:
    target = targets(QUICK)[name]
    return {c.text: c.verdict for c in claims(Evidence({name: target}, exact(target, mse)))}


@pytest.mark.parametrize(("ratio", "verdict"), [(15.0, HOLDS), (11.0, UNDECIDED), (9.0, UNDECIDED), (7.0, FAILS)])
def test_divergence_means_ten_times_the_error_of_os(ratio: float, verdict: str) -> None:
    found = verdicts("fig4", lambda work: 0.01 * (ratio if work.collect == "ros:alpha=1000" else 1.0))
    assert found["CartPole: α = 1000 diverges."] == verdict


@pytest.mark.parametrize(("step", "verdict"), [(0.7, HOLDS), (0.9, UNDECIDED), (1.0, UNDECIDED), (1.3, FAILS)])
def test_a_larger_step_size_by_table(step: float, verdict: str) -> None:
    """Each step size errs by `step` times the one before it. The α of table 1 on GridWorld, 1000, goes without saying."""

    def mse(work: Work) -> float:
        if not work.collect.startswith("ros"):
            return 0.01
        alpha = float(work.collect.partition("=")[2] or 1000.0)
        return 0.01 * step ** (math.log10(alpha) + 1)

    assert verdicts("fig4", mse)["GridWorld: with much data, a larger α gives lower MSE."] == verdict


@pytest.mark.parametrize(
    ("change", "larger_means", "more_noise"), [(0.6, HOLDS, FAILS), (0.9, UNDECIDED, UNDECIDED), (1.7, FAILS, HOLDS)]
)
@pytest.mark.parametrize(("name", "where"), [("fig4", "Bandit"), ("fig12", "GridWorld")])
def test_means_and_noise_by_table(name: str, where: str, change: float, larger_means: str, more_noise: str) -> None:
    """The ratio of ROS to OS at the largest factor is `change` times that at the smallest. All ratios share OS's error, so
    the change has the errors of four MSEs: 0.76 to 1.32 times itself."""
    last = {"fig4": "factor=64", "fig12": "=10"}[name]

    def mse(work: Work) -> float:
        largest = last in work.domain and work.domain.partition(":")[2] != ""
        return 0.01 * (0.5 * (change if largest else 1.0) if work.collect.startswith("ros") else 1.0)

    found = verdicts(name, mse)
    assert found[f"{where}: the larger the rewards' means, the more ROS reduces MSE."] == larger_means
    assert found[f"{where}: with more reward noise the advantage of ROS disappears."] == more_noise


@pytest.mark.parametrize(("ratio", "verdict"), [(0.7, HOLDS), (0.9, UNDECIDED), (1.3, FAILS)])
def test_every_epsilon_counts(ratio: float, verdict: str) -> None:
    found = verdicts("fig4", lambda w: 0.01 * ((ratio if w.epsilon == 0.3 else 0.5) if w.collect.startswith("ros") else 1.0))
    assert found["Bandit: ROS improves upon OS for every ε."] == verdict


@pytest.mark.parametrize(("slope", "verdict"), [(-0.5, HOLDS), (0.0, UNDECIDED), (0.5, FAILS)])
def test_the_trend_over_epsilon(slope: float, verdict: str) -> None:
    """With a slope of 0 the ratios go up and down by turns, which is a correlation of almost 0."""

    def mse(work: Work) -> float:
        if work.epsilon is None or not work.collect.startswith("ros"):
            return 0.01
        return 0.01 * math.exp(slope * work.epsilon + (0.0 if slope else 0.1 * (round(10 * work.epsilon) % 2)))

    assert verdicts("fig4", mse)["Bandit: the improvement is generally larger the more random the policy."] == verdict


def test_every_step_size_is_compared_from_two_mean_episodes_on() -> None:
    """All but the first checkpoint count, with each of the five step sizes: one reversed in each of them is seen."""
    target = targets(QUICK)["fig4"]
    found = next(
        c
        for c in claims(Evidence({"fig4": target}, exact(target, lambda work: 0.01 if work.collect == "os" else 0.002)))
        if "any tested step size" in c.text
    )
    panel = next(panel for panel in target.panels if panel.domain == "gridworld")
    count = 5 * (len(resolve(panel.lines[0].work).checkpoints) - 1)
    assert f"Of {count} comparisons" in found.criterion
    assert found.numbers[0] == f"below 1: {count}, above 1: 0, undecided: 0"
    assert found.verdict == HOLDS
