"""What the paper claims. Each claim has a criterion stated beforehand, and is judged on the trials at hand.

A claim about several comparisons holds if all of them do, does not hold if one is reversed, and is otherwise undecided.
Where very many comparisons are made some must err, and the criterion allows for it (`any_step_size`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from evenroll.study.blocks import resolve
from evenroll.study.claims_sensitivity import EARLY, sensitivity, step_size_claims
from evenroll.study.claims_theory import theory_claims
from evenroll.study.evidence import Evidence, JudgedClaim, compared, medians_compared
from evenroll.study.parts import BiasPart, Measured, Part, RatioPart
from evenroll.study.ratios import FAILS, HOLDS, together
from evenroll.study.results import on_policy_mse, statistic


def claims(evidence: Evidence) -> list[JudgedClaim]:
    """Every claim whose target was run, in the paper's order."""
    return [claim for target, judge in JUDGES if target in evidence.targets for claim in judge(evidence)]


def sampling_error(evidence: Evidence, target: str, name: str, prefix: str) -> Iterator[JudgedClaim]:
    """ROS ends with less sampling error than OS, in every domain."""
    yield compared(
        evidence, target, f"{prefix}ros", (f"{prefix}os",), f"ROS ends with less sampling error ({name}) than OS.",
        f"{name} of ROS / OS at the last checkpoint below 1 in every panel.",
    )  # fmt: skip


def fig1(evidence: Evidence) -> Iterator[JudgedClaim]:
    """Sampling error decreases faster with ROS than with OS, without and with initial data."""
    for prefix, place, when in (("", 0, "without"), ("init+", 1, "with")):
        panel = evidence.panels("fig1")[place]
        slopes, lines = {}, {}
        for name in ("ros", "os"):
            line = evidence.line(panel, f"{prefix}{name}")
            if line is None:
                return
            x, y = evidence.results.steps(line), statistic(evidence.results.curve(line), "kl")[0]
            late = x >= x[-1] / 32
            lines[name] = line
            slopes[name] = float(np.polyfit(np.log(x[late]), np.log(y[late]), 1)[0])
        ratio = RatioPart(
            "KL of ROS / OS", (Measured(lines["ros"], panel.quantity),), (Measured(lines["os"], panel.quantity),)
        )
        yield evidence.judged(
            "fig1",
            f"GridWorld, {when} initial data: sampling error decreases faster with ROS than with OS.",
            "KL of ROS / OS below 1 at the last checkpoint (95 %), and a steeper slope over the last five doublings.",
            (ratio,),
            fixed=(HOLDS if slopes["ros"] < slopes["os"] else FAILS,),
            numbers=(
                ratio.read(evidence.results, ratio.usual).text,
                f"slopes: ROS {slopes['ros']:.2f}, OS {slopes['os']:.2f}",
            ),
        )


def fig2(evidence: Evidence) -> Iterator[JudgedClaim]:
    """The errors of estimates without initial data: ROS against OS and BPG, OS against theory, auto against ROS."""
    yield compared(
        evidence, "fig2", "ros/mc", ("os/mc", "bpg/ois"), "ROS lowers MSE compared to both OS and BPG across all domains.",
        "MSE ratio at the last checkpoint below 1 (95 %) against each, in every domain.",
    )  # fmt: skip
    verdicts, numbers = [], []
    for panel in evidence.panels("fig2"):
        line = evidence.line(panel, "os/mc")
        if line is None:
            continue
        known, curve, steps = resolve(line.work).truth, evidence.results.curve(line), evidence.results.steps(line)
        theory = float(on_policy_mse(known, steps)[-1])
        away = (curve.mse[-1] - theory) / curve.mse_se[-1]
        verdicts.append(HOLDS if abs(away) < 3.0 else FAILS)
        numbers.append(f"{panel.title}: MSE / theory {curve.mse[-1] / theory:.2f}, {away:+.1f} standard errors")
    yield JudgedClaim(
        "fig2", "Ours: on-policy Monte Carlo errs as theory says, Var[return] / (n v²).",
        "Within 3 standard errors at the last checkpoint, in every domain.", together(verdicts), tuple(numbers),
    )  # fmt: skip
    yield compared(
        evidence, "fig2", "auto/mc", ("ros/mc",), "Ours: auto, without a step size, errs less than ROS with the tuned one.",
        "MSE ratio at the last checkpoint below 1 (95 %), in every domain.",
    )  # fmt: skip


def fig3(evidence: Evidence) -> Iterator[JudgedClaim]:
    """The errors of estimates with initial data, and what initial data does before anything is collected."""
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
    parts: list[Part] = []
    numbers = []
    for panel in evidence.panels("fig3"):
        start, first = evidence.measured(panel, "init+os/mc", 0), evidence.measured(panel, "os/mc", 0)
        if start is None or first is None:
            continue
        pair = RatioPart(f"{panel.title}, MSE", (start,), (first,)), BiasPart("bias", start)
        parts += pair
        numbers.append("; ".join(part.read(evidence.results, part.usual).text for part in pair))
    yield evidence.judged(
        "fig3", "Initial data reduces MSE at once, at the expense of bias.",
        "MSE with 0 new steps / MSE of OS after one mean episode below 1, and bias there more than 1.96 standard errors.",
        parts, numbers=tuple(numbers),
    )  # fmt: skip


def fig6(evidence: Evidence) -> Iterator[JudgedClaim]:
    """Sampling error by KL divergence: ROS lowers it and BPG raises it."""
    yield from sampling_error(evidence, "fig6", "KL", "")
    yield compared(
        evidence, "fig6", "bpg", ("os",), "BPG increases sampling error: it moves away from the policy.",
        "KL of BPG / OS at the last checkpoint above 1 (95 %), in every domain.", below=False,
    )  # fmt: skip


def fig13(evidence: Evidence) -> Iterator[JudgedClaim]:
    """Weighting by the fitted policy (WRIS) does not make up for on-policy sampling, or needs much data for it."""
    yield compared(
        evidence, "fig13", "os/wris", ("ros/mc",),
        "Tabular: OS does not reach the MSE of ROS, even with the help of WRIS.",
        "MSE of OS-WRIS / ROS-MC above 1 (95 %) at the last checkpoint, Bandit and GridWorld.", below=False,
        domains=("bandit", "gridworld"),
    )  # fmt: skip
    parts = []
    for panel in evidence.panels("fig13"):
        place = evidence.place(panel, EARLY)
        if panel.domain in ("bandit", "gridworld") or place is None:
            continue
        a, b = evidence.measured(panel, "os/wris", place), evidence.measured(panel, "ros/mc", place)
        if a is not None and b is not None:
            name = f"{panel.title}, OS-WRIS / ROS-MC at {EARLY:g} mean episodes"
            parts.append(RatioPart(name, (a,), (b,), below=False))
    yield evidence.judged(
        "fig13", "Non-tabular: WRIS needs much data before it is as accurate as ROS.",
        f"MSE of OS-WRIS / ROS-MC above 1 (95 %) after {EARLY:g} mean episodes, both CartPoles.", parts,
    )  # fmt: skip


def fig14(evidence: Evidence) -> Iterator[JudgedClaim]:
    """Fitted Q-evaluation profits from the data of ROS."""
    for name, text in (("fqe-net-small", "a small network"), ("fqe", "the linear or tabular fit")):
        yield compared(
            evidence, "fig14", f"ros/{name}", (f"os/{name}",), f"FQE ({text}): data from ROS gives lower MSE than from OS.",
            "MSE ratio at the last checkpoint below 1 (95 %), in every domain.",
        )  # fmt: skip


JUDGES: tuple[tuple[str, Callable[[Evidence], Iterator[JudgedClaim]]], ...] = (
    ("fig1", fig1),
    ("fig2", fig2),
    ("fig3", fig3),
    ("fig4", step_size_claims),
    ("fig6", fig6),
    ("fig7", lambda e: sampling_error(e, "fig7", "KL", "init+")),
    ("fig8", lambda e: sampling_error(e, "fig8", "gradient norm", "")),
    ("fig9", lambda e: sampling_error(e, "fig9", "gradient norm", "init+")),
    ("fig10", lambda e: iter([medians_compared(e, "fig10", "ros/mc", "os/mc")])),
    ("fig11", lambda e: iter([medians_compared(e, "fig11", "init+ros/mc", "init+os/mc")])),
    ("fig12", lambda e: sensitivity(e, "fig12", *e.panels("fig12"))),
    ("fig13", fig13),
    ("fig14", fig14),
    ("theory", lambda e: theory_claims()),
)
