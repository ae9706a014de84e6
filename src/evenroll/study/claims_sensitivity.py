"""Claims of figures 4 and 12: how the advantage of ROS depends on its step size, on noise, and on the policy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from evenroll.study.evidence import Evidence, JudgedClaim
from evenroll.study.experiments import ALPHAS, title_of
from evenroll.study.parts import Measured, RatioPart, TrendPart
from evenroll.study.ratios import FAILS, HOLDS, UNDECIDED, below, shown
from evenroll.study.targets import Line, Panel, Sweep, label

EARLY = 32.0  # mean episodes: this counts as little data


def step_size_claims(evidence: Evidence) -> Iterator[JudgedClaim]:
    """The claims of figure 4: two panels of step sizes, then one of noise and one of ε."""
    grid, pole, factors, epsilon = evidence.panels("fig4")
    yield any_step_size(evidence, grid)
    ladder = [(x.method, Measured(x, grid.quantity)) for x in step_sizes(grid)]
    yield evidence.judged(
        "fig4", "GridWorld: with much data, a larger α gives lower MSE.",
        "At the last checkpoint the MSE ratio of each tested α to the one before it, from OS (α = 0) on, is below 1 (95 %).",
        [
            RatioPart(f"{label(method)} / the one before", (larger,), (smaller,))
            for (_, smaller), (method, larger) in itertools.pairwise(ladder)
        ],
    )  # fmt: skip
    base = evidence.measured(pole, "os/mc")
    largest, second = evidence.measured(pole, "ros:alpha=1000/mc"), evidence.measured(pole, "ros:alpha=100/mc")
    if base is None or largest is None or second is None:
        return
    away = evidence.results.curve(largest.line).runaway
    ratio = RatioPart("MSE ratio", (largest,), (base,), below=False, bound=10.0)
    yield evidence.judged(
        "fig4", "CartPole: α = 1000 diverges.", "Its MSE / that of OS is above 10 at the last checkpoint (95 %).", (ratio,),
        numbers=(
            ratio.read(evidence.results, ratio.usual).text,
            f"the guard saw it run away in {away} of {largest.line.trials} trials",
        ),
    )  # fmt: skip
    place = evidence.place(pole, EARLY)
    if place is not None:
        early = RatioPart(f"at {EARLY:g}", (replace(second, place=place),), (replace(base, place=place),), below=False)
        yield evidence.judged(
            "fig4", "CartPole: α = 100 needs many steps before it improves upon OS.",
            f"MSE / that of OS above 1 after {EARLY:g} mean episodes and below 1 at the last checkpoint (95 %).",
            (early, RatioPart("at the end", (second,), (base,))),
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

    def ends(sweep: Sweep, below: bool) -> tuple[RatioPart, tuple[str, ...]]:
        """The ratio at the last setting relative to that at the first, and all three as lines of the page."""
        mine, theirs = sides(sweep)
        change = RatioPart("largest / smallest", (mine[-1], theirs[0]), (theirs[-1], mine[0]), below)
        parts = [RatioPart(f"× {sweep.x[i]:g}", (mine[i],), (theirs[i],)) for i in (0, -1)]
        return change, tuple(part.read(evidence.results, part.usual).text for part in (*parts, change))

    change, numbers = ends(mean, below=True)
    yield evidence.judged(
        target, f"{where}: the larger the rewards' means, the more ROS reduces MSE.",
        "MSE ratio ROS / OS at the largest factor / that at the smallest below 1 (95 %).", (change,), numbers=numbers,
    )  # fmt: skip
    change, numbers = ends(noise, below=False)
    yield evidence.judged(
        target, f"{where}: with more reward noise the advantage of ROS disappears.",
        "MSE ratio ROS / OS at the largest factor / that at the smallest above 1 (95 %).", (change,), numbers=numbers,
    )  # fmt: skip
    mine, theirs = sides(epsilon.sweeps[0])
    every = [RatioPart(f"ε = {x:g}", (a,), (b,)) for x, a, b in zip(epsilon.sweeps[0].x, mine, theirs, strict=True)]
    judged = [part for part in every if math.isfinite(part.read(evidence.results, part.usual).value)]
    zero = () if len(judged) == len(every) else ("ε = 0: both errors are 0, there is no ratio",)
    yield evidence.judged(
        target, f"{where}: ROS improves upon OS for every ε.", "MSE ratio below 1 (95 %) for every ε.", judged,
        numbers=tuple(part.read(evidence.results, part.usual).text for part in judged) + zero,
    )  # fmt: skip
    trend = TrendPart("correlation", tuple(part.over[0] for part in judged), tuple(part.under[0] for part in judged))
    yield evidence.judged(
        target, f"{where}: the improvement is generally larger the more random the policy.",
        "Correlation of log ratio with the rank of ε below −0.5 (trend), undecided between −0.5 and 0.5.", (trend,),
    )  # fmt: skip


def sides(sweep: Sweep) -> tuple[list[Measured], list[Measured]]:
    """What a sweep compares, setting by setting: the MSE of the method, and that of OS."""
    mine, theirs = (
        [Measured(Line(sweep.method, work, work.measures[0], sweep.trials), "mse") for work in works]
        for works in (sweep.works, sweep.against)
    )
    return mine, theirs
