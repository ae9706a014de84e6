"""Claims of figures 4 and 12: how the advantage of ROS depends on its step size, on noise, and on the policy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from evenroll.study.evidence import Evidence, JudgedClaim
from evenroll.study.experiments import ALPHAS, title_of
from evenroll.study.ratios import FAILS, HOLDS, UNDECIDED, Number, Ratio, above, below, shown, together
from evenroll.study.targets import Line, Panel, Sweep, label

EARLY = 32.0  # mean episodes: this counts as little data


def step_size_claims(evidence: Evidence) -> Iterator[JudgedClaim]:
    """The claims of figure 4: two panels of step sizes, then one of noise and one of ε."""
    grid, pole, factors, epsilon = evidence.panels("fig4")
    yield any_step_size(evidence, grid)
    finals = [(x.method, n) for x in step_sizes(grid) if (n := evidence.at(grid, x.method)) is not None]
    steps = [larger.over(smaller) for (_, smaller), (_, larger) in itertools.pairwise(finals)]
    yield JudgedClaim(
        "fig4", "GridWorld: with much data, a larger α gives lower MSE.",
        "At the last checkpoint the MSE ratio of each tested α to the one before it, from OS (α = 0) on, is below 1 (95 %).",
        together(below(r) for r in steps),
        tuple(shown(f"{label(m)} / the one before", r) for (m, _), r in zip(finals[1:], steps, strict=True)),
    )  # fmt: skip
    base = evidence.at(pole, "os/mc")
    largest, second = evidence.at(pole, "ros:alpha=1000/mc"), evidence.at(pole, "ros:alpha=100/mc")
    if base is None or largest is None or second is None:
        return
    line = evidence.line(pole, "ros:alpha=1000/mc")
    away = evidence.results.curve(line).runaway if line else 0
    ratio = largest.over(base)
    yield JudgedClaim(
        "fig4", "CartPole: α = 1000 diverges.", "Its MSE / that of OS is above 10 at the last checkpoint (95 %).",
        above(ratio, 10.0),
        (shown("MSE ratio", ratio), f"the guard saw it run away in {away} of {line.trials if line else 0} trials"),
    )  # fmt: skip
    place, late = evidence.place(pole, EARLY), second.over(base)
    if place is not None:
        early, early_base = (evidence.at(pole, m, place) for m in ("ros:alpha=100/mc", "os/mc"))
        assert early is not None
        assert early_base is not None
        ratio = early.over(early_base)
        yield JudgedClaim(
            "fig4", "CartPole: α = 100 needs many steps before it improves upon OS.",
            f"MSE / that of OS above 1 after {EARLY:g} mean episodes and below 1 at the last checkpoint (95 %).",
            together([above(ratio), below(late)]), (shown(f"at {EARLY:g}", ratio), shown("at the end", late)),
        )  # fmt: skip
    yield from sensitivity(evidence, "fig4", factors, epsilon)


def step_sizes(panel: Panel) -> tuple[Line, ...]:
    """The lines of OS and of ROS by increasing α, as the paper has them. Lines of other methods may follow."""
    return panel.lines[: 1 + len(ALPHAS[panel.domain])]


def any_step_size(evidence: Evidence, panel: Panel) -> JudgedClaim:
    """The claim about every step size at every checkpoint. It makes so many comparisons that one in 20 may err."""
    verdicts, worst = [], (0.0, "")
    base = evidence.line(panel, "os/mc")
    assert base is not None
    others = step_sizes(panel)[1:]
    places = range(1, len(evidence.results.steps(base)))  # after one mean episode all methods are alike
    comparisons = len(others) * len(places)
    for line in others:
        for place in places:
            a, b = evidence.at(panel, line.method, place), evidence.at(panel, "os/mc", place)
            assert a is not None
            assert b is not None
            ratio = a.over(b)
            verdicts.append(below(ratio))
            budget = line.work.budgets[place]
            worst = max(
                worst, (ratio.value, shown(f"largest ratio, {label(line.method)} at {budget:g} mean episodes", ratio))
            )
    reversed_ = sum(v == FAILS for v in verdicts)
    return JudgedClaim(
        "fig4", "GridWorld: ROS with any tested step size has lower MSE than OS for any data set size.",
        f"Of {comparisons} comparisons from 2 mean episodes on, at most one in 20 (or one) has a ratio above 1 (95 %), "
        "and more than half are below 1 (95 %).",
        FAILS if reversed_ > max(1, 0.05 * comparisons) else HOLDS if verdicts.count(HOLDS) > comparisons / 2 else UNDECIDED,
        (f"below 1: {verdicts.count(HOLDS)}, above 1: {reversed_}, undecided: {verdicts.count(UNDECIDED)}", worst[1]),
    )  # fmt: skip


def sensitivity(evidence: Evidence, target: str, factors: Panel, epsilon: Panel) -> Iterator[JudgedClaim]:
    """The claims about the rewards' means, the rewards' noise, and the policy's ε."""
    mean, noise = (s for s in factors.sweeps if s.method == "ros/mc")
    where = title_of(factors.domain)

    def ends(sweep: Sweep) -> tuple[Ratio, Ratio, Ratio]:
        """The ratios at the first and at the last setting, and the last relative to the first."""
        found = evidence.results.ratios(sweep)
        numbers = [Number(float(r), float(s)) for r, s in zip(found.ratio, found.se, strict=True)]
        one = Number(1.0, 0.0)
        return numbers[0].over(one), numbers[-1].over(one), numbers[-1].over(numbers[0])

    first, last, change = ends(mean)
    yield JudgedClaim(
        target, f"{where}: the larger the rewards' means, the more ROS reduces MSE.",
        "MSE ratio ROS / OS at the largest factor / that at the smallest below 1 (95 %).", below(change),
        (shown(f"× {mean.x[0]:g}", first), shown(f"× {mean.x[-1]:g}", last), shown("largest / smallest", change)),
    )  # fmt: skip
    first, last, change = ends(noise)
    yield JudgedClaim(
        target, f"{where}: with more reward noise the advantage of ROS disappears.",
        "MSE ratio ROS / OS at the largest factor / that at the smallest above 1 (95 %).", above(change),
        (shown(f"× {noise.x[0]:g}", first), shown(f"× {noise.x[-1]:g}", last), shown("largest / smallest", change)),
    )  # fmt: skip
    sweep = epsilon.sweeps[0]
    found = evidence.results.ratios(sweep)
    ratios = [Number(float(r), float(s)).over(Number(1.0, 0.0)) for r, s in zip(found.ratio, found.se, strict=True)]
    judged = [(x, r) for x, r in zip(found.x, ratios, strict=True) if math.isfinite(r.value)]
    verdicts = [below(r) for _, r in judged]
    numbers = tuple(shown(f"ε = {x:g}", r) for x, r in judged)
    zero = () if len(judged) == len(ratios) else ("ε = 0: both errors are 0, there is no ratio",)
    yield JudgedClaim(
        target, f"{where}: ROS improves upon OS for every ε.", "MSE ratio below 1 (95 %) for every ε.",
        together(verdicts), numbers + zero,
    )  # fmt: skip
    with np.errstate(invalid="ignore"):  # ratios that are all the same have no correlation, and decide nothing
        trend = float(np.corrcoef(np.arange(len(judged)), np.log([r.value for _, r in judged]))[0, 1])
    yield JudgedClaim(
        target, f"{where}: the improvement is generally larger the more random the policy.",
        "Correlation of log ratio with the rank of ε below −0.5 (trend), undecided between −0.5 and 0.5.",
        HOLDS if trend < -0.5 else FAILS if trend > 0.5 else UNDECIDED, (f"correlation {trend:+.2f}",),
    )  # fmt: skip
