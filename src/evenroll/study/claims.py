"""What the paper claims, each with a criterion stated beforehand, and whether it holds on the trials at hand.

Two numbers differ if the 95 % interval of their ratio leaves out 1. A claim about several comparisons holds if all do,
does not hold if one is reversed, and is otherwise undecided; where very many are made, some must err (`any_step_size`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenroll.study.charts import statistic
from evenroll.study.experiments import ALPHAS, Line, Panel, Sweep, Target, label, title_of
from evenroll.study.laws import ACTIONS, laws
from evenroll.study.results import Results
from evenroll.study.tables import Number, Ratio

EARLY = 32.0  # mean episodes: what is little data
HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "cannot tell"


@dataclass(frozen=True)
class Claim:
    target: str
    text: str
    criterion: str
    verdict: str
    numbers: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Evidence:
    """The targets that were run and their results."""

    targets: Mapping[str, Target]
    results: Results

    def panels(self, target: str) -> tuple[Panel, ...]:
        return tuple(p for p in self.targets[target].panels if ":" not in p.domain)

    def line(self, panel: Panel, method: str) -> Line | None:
        return next((x for x in panel.lines if x.method == method), None)

    def place(self, panel: Panel, budget: float) -> int | None:
        """Where in its curves a panel has this many mean episodes, if it has."""
        budgets = panel.lines[0].work.budgets
        return budgets.index(budget) if budget in budgets else None

    def at(self, panel: Panel, method: str, place: int = -1) -> Number | None:
        """The panel's quantity at a checkpoint, if the method is in it. A median has no standard error."""
        line = self.line(panel, method)
        if line is None:
            return None
        mean, _, high = statistic(self.results.curve(line), panel.quantity)
        return Number(float(mean[place]), math.nan if panel.quantity == "median" else float(high[place] - mean[place]))


def claims(evidence: Evidence) -> list[Claim]:
    """Every claim whose targets were run, in the paper's order."""
    return [claim for target, judge in JUDGES if target in evidence.targets for claim in judge(evidence)]


# ---- judging -------------------------------------------------------------------------------------------------


def below(ratio: Ratio) -> str:
    """Is it below 1?"""
    return HOLDS if ratio.high < 1.0 else FAILS if ratio.low > 1.0 else UNDECIDED


def above(ratio: Ratio) -> str:
    return HOLDS if ratio.low > 1.0 else FAILS if ratio.high < 1.0 else UNDECIDED


def together(verdicts: Iterable[str]) -> str:
    found = set(verdicts)
    return FAILS if FAILS in found else UNDECIDED if UNDECIDED in found or not found else HOLDS


def shown(name: str, ratio: Ratio) -> str:
    return f"{name}: {ratio.value:.2g} [{ratio.low:.2g}, {ratio.high:.2g}]"


def compared(
    evidence: Evidence, target: str, one: str, others: tuple[str, ...], text: str, criterion: str,
    judge: Callable[[Ratio], str] = below, domains: tuple[str, ...] | None = None,
) -> Claim:  # fmt: skip
    """One method against others at the last checkpoint of every panel."""
    verdicts, numbers = [], []
    for panel in evidence.panels(target):
        mine = evidence.at(panel, one)
        for other in others:
            theirs = evidence.at(panel, other)
            if mine is None or theirs is None or (domains is not None and panel.domain not in domains):
                continue
            ratio = mine.over(theirs)
            verdicts.append(judge(ratio))
            numbers.append(shown(f"{panel.title}, {label(one)} / {label(other)}", ratio))
    return Claim(target, text, criterion, together(verdicts), tuple(numbers))


def sampling_error(evidence: Evidence, target: str, name: str, prefix: str) -> Iterator[Claim]:
    yield compared(
        evidence, target, f"{prefix}ros", (f"{prefix}os",), f"ROS ends with less sampling error ({name}) than OS.",
        f"{name} of ROS / OS at the last checkpoint below 1 in every panel.",
    )  # fmt: skip


def fig1(evidence: Evidence) -> Iterator[Claim]:
    for prefix, place, when in (("", 0, "without"), ("init+", 1, "with")):
        panel = evidence.panels("fig1")[place]
        slopes = {}
        for name in ("ros", "os"):
            line = evidence.line(panel, f"{prefix}{name}")
            if line is None:
                return
            x, y = evidence.results.steps(line), statistic(evidence.results.curve(line), "kl")[0]
            late = x >= x[-1] / 32
            slopes[name] = float(np.polyfit(np.log(x[late]), np.log(y[late]), 1)[0])
        ratio = evidence.at(panel, f"{prefix}ros").over(evidence.at(panel, f"{prefix}os"))  # type: ignore[union-attr,arg-type]
        yield Claim(
            "fig1",
            f"GridWorld, {when} initial data: sampling error decreases faster with ROS than with OS.",
            "KL of ROS / OS below 1 at the last checkpoint (95 %), and a steeper slope over the last five doublings.",
            together([below(ratio), HOLDS if slopes["ros"] < slopes["os"] else FAILS]),
            (shown("KL of ROS / OS", ratio), f"slopes: ROS {slopes['ros']:.2f}, OS {slopes['os']:.2f}"),
        )


def fig2(evidence: Evidence) -> Iterator[Claim]:
    yield compared(
        evidence, "fig2", "ros/mc", ("os/mc", "bpg/ois"), "ROS lowers MSE compared to both OS and BPG across all domains.",
        "MSE ratio at the last checkpoint below 1 (95 %) against each, in every domain.",
    )  # fmt: skip
    verdicts, numbers = [], []
    for panel in evidence.panels("fig2"):
        line = evidence.line(panel, "os/mc")
        if line is None:
            continue
        from evenroll.study.blocks import resolve

        known, curve, steps = resolve(line.work).truth, evidence.results.curve(line), evidence.results.steps(line)
        theory = known.variance * known.mean_length / (steps[-1] * known.value**2)
        away = (curve.mse[-1] - theory) / curve.mse_se[-1]
        verdicts.append(HOLDS if abs(away) < 3.0 else FAILS)
        numbers.append(f"{panel.title}: MSE / theory {curve.mse[-1] / theory:.2f}, {away:+.1f} standard errors")
    yield Claim(
        "fig2", "Ours: on-policy Monte Carlo errs as theory says, Var[return] / (n v²).",
        "Within 3 standard errors at the last checkpoint, in every domain.", together(verdicts), tuple(numbers),
    )  # fmt: skip
    yield compared(
        evidence, "fig2", "auto/mc", ("ros/mc",), "Ours: auto, without a step size, errs less than ROS with the tuned one.",
        "MSE ratio at the last checkpoint below 1 (95 %), in every domain.",
    )  # fmt: skip


def fig3(evidence: Evidence) -> Iterator[Claim]:
    yield compared(
        evidence, "fig3", "init+ros/mc", ("init+os/mc", "init+os/wis+mc", "init+bpg/ois"),
        "With initial data ROS gives lower MSE than the other ways to collect.",
        "MSE ratio at the last checkpoint below 1 (95 %) against each, in every domain.",
    )  # fmt: skip
    yield compared(
        evidence, "fig3", "init+ros/mc", ("os/mc",),
        "Even with 100 off-policy trajectories in the data, ROS ends below OS, which has none.",
        "MSE ratio at the last checkpoint below 1 (95 %), in every domain.",
    )  # fmt: skip
    verdicts, numbers = [], []
    for panel in evidence.panels("fig3"):
        start, first = evidence.at(panel, "init+os/mc", 0), evidence.at(panel, "os/mc", 0)
        line = evidence.line(panel, "init+os/mc")
        if start is None or first is None or line is None:
            continue
        ratio, curve = start.over(first), evidence.results.curve(line)
        errors = curve.estimates[:, 0] - 1.0
        t = errors.mean() / (errors.std(ddof=1) / math.sqrt(len(errors)))
        verdicts += [below(ratio), HOLDS if abs(t) > 1.96 else UNDECIDED]
        numbers.append(f"{shown(panel.title + ', MSE', ratio)}; bias {errors.mean():+.3f}, {t:+.1f} standard errors")
    yield Claim(
        "fig3", "Initial data reduces MSE at once, at the expense of bias.",
        "MSE with 0 new steps / MSE of OS after one mean episode below 1, and bias there more than 1.96 standard errors.",
        together(verdicts), tuple(numbers),
    )  # fmt: skip


def fig4(evidence: Evidence) -> Iterator[Claim]:
    grid, pole, factors, epsilon = evidence.panels("fig4")
    yield any_step_size(evidence, grid)
    finals = [(x.method, n) for x in step_sizes(grid) if (n := evidence.at(grid, x.method)) is not None]
    steps = [larger.over(smaller) for (_, smaller), (_, larger) in itertools.pairwise(finals)]
    yield Claim(
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
    yield Claim(
        "fig4", "CartPole: α = 1000 diverges.", "Its MSE / that of OS is above 10 at the last checkpoint (95 %).",
        HOLDS if ratio.low > 10.0 else FAILS if ratio.high < 10.0 else UNDECIDED,
        (shown("MSE ratio", ratio), f"the guard saw it run away in {away} of {line.trials if line else 0} trials"),
    )  # fmt: skip
    place, late = evidence.place(pole, EARLY), second.over(base)
    if place is not None:
        early, early_base = (evidence.at(pole, m, place) for m in ("ros:alpha=100/mc", "os/mc"))
        assert early is not None
        assert early_base is not None
        ratio = early.over(early_base)
        yield Claim(
            "fig4", "CartPole: α = 100 needs many steps before it improves upon OS.",
            f"MSE / that of OS above 1 after {EARLY:g} mean episodes and below 1 at the last checkpoint (95 %).",
            together([above(ratio), below(late)]), (shown(f"at {EARLY:g}", ratio), shown("at the end", late)),
        )  # fmt: skip
    yield from sensitivity(evidence, "fig4", factors, epsilon)


def step_sizes(panel: Panel) -> tuple[Line, ...]:
    """OS and ROS by increasing α, as the paper has them; other methods may follow."""
    return panel.lines[: 1 + len(ALPHAS[panel.domain])]


def any_step_size(evidence: Evidence, panel: Panel) -> Claim:
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
    return Claim(
        "fig4", "GridWorld: ROS with any tested step size has lower MSE than OS for any data set size.",
        f"Of {comparisons} comparisons from 2 mean episodes on, at most one in 20 (or one) has a ratio above 1 (95 %), "
        "and more than half are below 1 (95 %).",
        FAILS if reversed_ > max(1, 0.05 * comparisons) else HOLDS if verdicts.count(HOLDS) > comparisons / 2 else UNDECIDED,
        (f"below 1: {verdicts.count(HOLDS)}, above 1: {reversed_}, undecided: {verdicts.count(UNDECIDED)}", worst[1]),
    )  # fmt: skip


def sensitivity(evidence: Evidence, target: str, factors: Panel, epsilon: Panel) -> Iterator[Claim]:
    mean, noise = (s for s in factors.sweeps if s.method == "ros/mc")
    where = title_of(factors.domain)

    def ends(sweep: Sweep) -> tuple[Ratio, Ratio, Ratio]:
        """First and last ratio, and last / first."""
        found = evidence.results.ratios(sweep)
        numbers = [Number(float(r), float(s)) for r, s in zip(found.ratio, found.se, strict=True)]
        one = Number(1.0, 0.0)
        return numbers[0].over(one), numbers[-1].over(one), numbers[-1].over(numbers[0])

    first, last, change = ends(mean)
    yield Claim(
        target, f"{where}: the larger the rewards' means, the more ROS reduces MSE.",
        "MSE ratio ROS / OS at the largest factor / that at the smallest below 1 (95 %).", below(change),
        (shown(f"× {mean.x[0]:g}", first), shown(f"× {mean.x[-1]:g}", last), shown("largest / smallest", change)),
    )  # fmt: skip
    first, last, change = ends(noise)
    yield Claim(
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
    yield Claim(
        target, f"{where}: ROS improves upon OS for every ε.", "MSE ratio below 1 (95 %) for every ε.",
        together(verdicts), numbers + zero,
    )  # fmt: skip
    trend = float(np.corrcoef(np.arange(len(judged)), np.log([r.value for _, r in judged]))[0, 1])
    yield Claim(
        target, f"{where}: the improvement is generally larger the more random the policy.",
        "Correlation of log ratio with the rank of ε below −0.5 (trend), undecided between −0.5 and 0.5.",
        HOLDS if trend < -0.5 else FAILS if trend > 0.5 else UNDECIDED, (f"correlation {trend:+.2f}",),
    )  # fmt: skip


def fig6(evidence: Evidence) -> Iterator[Claim]:
    yield from sampling_error(evidence, "fig6", "KL", "")
    yield compared(
        evidence, "fig6", "bpg", ("os",), "BPG increases sampling error: it moves away from the policy.",
        "KL of BPG / OS at the last checkpoint above 1 (95 %), in every domain.", above,
    )  # fmt: skip


def median_claim(evidence: Evidence, target: str, one: str, other: str) -> Iterator[Claim]:
    verdicts, numbers = [], []
    for panel in evidence.panels(target):
        a, b = evidence.line(panel, one), evidence.line(panel, other)
        if a is None or b is None:
            continue
        x, y = (evidence.results.curve(line).squared[:, -1] for line in (a, b))
        mine, theirs = (_median_interval(v) for v in (x, y))
        verdicts.append(HOLDS if mine[1] < theirs[0] else FAILS if mine[0] > theirs[1] else UNDECIDED)
        medians = [f"{np.median(v):.2g} [{i[0]:.2g}, {i[1]:.2g}]" for v, i in ((x, mine), (y, theirs))]
        numbers.append(f"{panel.title}: {medians[0]} against {medians[1]}")
    yield Claim(
        target, f"{label(one)} has a lower median squared error than {label(other)}.",
        "At the last checkpoint the 95 % intervals of the medians (order statistics) do not overlap, in every domain.",
        together(verdicts), tuple(numbers),
    )  # fmt: skip


def _median_interval(x: np.ndarray) -> tuple[float, float]:
    """Distribution-free: order statistics n/2 ± 0.98 √n."""
    x = np.sort(x[~np.isnan(x)])
    half = 0.98 * math.sqrt(len(x))
    low, high = max(math.floor(len(x) / 2 - half), 0), min(math.ceil(len(x) / 2 + half), len(x) - 1)
    return float(x[low]), float(x[high])


def fig13(evidence: Evidence) -> Iterator[Claim]:
    yield compared(
        evidence, "fig13", "os/wris", ("ros/mc",),
        "Tabular: OS does not reach the MSE of ROS, even with the help of WRIS.",
        "MSE of OS-WRIS / ROS-MC above 1 (95 %) at the last checkpoint, Bandit and GridWorld.", above,
        ("bandit", "gridworld"),
    )  # fmt: skip
    verdicts, numbers = [], []
    for panel in evidence.panels("fig13"):
        place = evidence.place(panel, EARLY)
        if panel.domain in ("bandit", "gridworld") or place is None:
            continue
        a, b = evidence.at(panel, "os/wris", place), evidence.at(panel, "ros/mc", place)
        if a is None or b is None:
            continue
        verdicts.append(above(a.over(b)))
        numbers.append(shown(f"{panel.title}, OS-WRIS / ROS-MC at {EARLY:g} mean episodes", a.over(b)))
    yield Claim(
        "fig13", "Non-tabular: WRIS needs much data before it is as accurate as ROS.",
        f"MSE of OS-WRIS / ROS-MC above 1 (95 %) after {EARLY:g} mean episodes, both CartPoles.",
        together(verdicts), tuple(numbers),
    )  # fmt: skip


def fig14(evidence: Evidence) -> Iterator[Claim]:
    for name, text in (("fqe-net-small", "a small network"), ("fqe", "the linear or tabular fit")):
        yield compared(
            evidence, "fig14", f"ros/{name}", (f"os/{name}",), f"FQE ({text}): data from ROS gives lower MSE than from OS.",
            "MSE ratio at the last checkpoint below 1 (95 %), in every domain.",
        )  # fmt: skip


def theory(evidence: Evidence) -> Iterator[Claim]:
    found = laws()
    after = {k: v[1] for k, v in found.after.items()}
    yield Claim(
        "theory", "Proposition 1, its example: one more on-policy draw gives 2.75 on average, the under-sampled action 3.",
        "Exactly so.", HOLDS if (after["os"], after["ros"]) == (2.75, 3.0) else FAILS,
        (f"on-policy {after['os']:.4g}, ROS {after['ros']:.4g}, truth 3",),
    )  # fmt: skip
    bound = len(ACTIONS) - 1
    largest = float(found.deviation["ros"].max())
    yield Claim(
        "theory", "Lemma 1: counts never stray further than |A| − 1 from visits·π, and never more than 1 above.",
        f"At all {found.visits[-1]} visits of all trials.",
        HOLDS if largest <= bound + 1e-6 and found.over["ros"] <= 1 + 1e-6 else FAILS,
        (f"largest {largest:.3f} ≤ {bound}, above {found.over['ros']:.3f}; on-policy {found.deviation['os'].max():.0f}",),
    )  # fmt: skip
    yield Claim(
        "theory", "Theorem 1: state visitation converges to that of the policy.",
        f"Largest error after {found.episodes[-1]} trajectories below a tenth of that after {found.episodes[0]}.",
        HOLDS if found.error["ros"][-1] < found.error["ros"][0] / 10 else FAILS,
        (f"{found.error['ros'][0]:.3f} → {found.error['ros'][-1]:.4f} (OS {found.error['os'][-1]:.4f})",),
    )  # fmt: skip
    yield Claim(
        "theory", "Theorem 2: KL of a state's action frequencies falls as 1/m² under ROS, 1/m on-policy.",
        "Log-log slopes within 0.25 of −2 and −1.",
        HOLDS if abs(found.slope["ros"] + 2) < 0.25 and abs(found.slope["os"] + 1) < 0.25 else FAILS,
        (f"slopes {found.slope['ros']:.2f} and {found.slope['os']:.2f}",),
    )  # fmt: skip
    error, printed, corrected = found.counter_example
    yield Claim(
        "theory", "Theorem 3 as printed: (v − MC)² ≤ Σ γ²ᵗ R²_max √(2 KL_t).",
        "No data set violates it. Its proof squares a sum as if (Σx)² ≤ Σx².",
        FAILS if error > printed else HOLDS,
        (f"two steps, π = ½, R = ±1, the one trajectory (a₀, a₀): squared error {error:g}, printed bound {printed:.2f}",),
    )  # fmt: skip
    worst = float((found.bounds[:, 0] / found.bounds[:, 2]).max())
    yield Claim(
        "theory", "Ours: Theorem 3 corrected, |v − MC| ≤ Σ γᵗ R_max √(2 KL_t), |R| ≤ R_max.",
        "No data set violates it.", HOLDS if worst <= 1.0 and error <= corrected else FAILS,
        (f"counter-example: {error:g} ≤ {corrected:.2f}; {len(found.bounds)} random MDPs: at most {worst:.2g} of it",),
    )  # fmt: skip


JUDGES: tuple[tuple[str, Callable[[Evidence], Iterator[Claim]]], ...] = (
    ("fig1", fig1),
    ("fig2", fig2),
    ("fig3", fig3),
    ("fig4", fig4),
    ("fig6", fig6),
    ("fig7", lambda e: sampling_error(e, "fig7", "KL", "init+")),
    ("fig8", lambda e: sampling_error(e, "fig8", "gradient norm", "")),
    ("fig9", lambda e: sampling_error(e, "fig9", "gradient norm", "init+")),
    ("fig10", lambda e: median_claim(e, "fig10", "ros/mc", "os/mc")),
    ("fig11", lambda e: median_claim(e, "fig11", "init+ros/mc", "init+os/mc")),
    ("fig12", lambda e: sensitivity(e, "fig12", *e.panels("fig12"))),
    ("fig13", fig13),
    ("fig14", fig14),
    ("theory", theory),
)
