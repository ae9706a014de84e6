"""Claims of the paper's propositions and theorems, judged on the data of `laws`."""

from __future__ import annotations

from collections.abc import Iterator

from evenroll.study.evidence import JudgedClaim
from evenroll.study.laws import ACTIONS, laws
from evenroll.study.ratios import FAILS, HOLDS


def theory_claims() -> Iterator[JudgedClaim]:
    """Proposition 1, Lemma 1, Theorems 1 – 3, and what holds instead of Theorem 3."""
    found = laws()
    after = {k: v[1] for k, v in found.after.items()}
    yield JudgedClaim(
        "theory", "Proposition 1, its example: one more on-policy draw gives 2.75 on average, the under-sampled action 3.",
        "Exactly so.", HOLDS if (after["os"], after["ros"]) == (2.75, 3.0) else FAILS,
        (f"on-policy {after['os']:.4g}, ROS {after['ros']:.4g}, truth 3",),
    )  # fmt: skip
    bound = len(ACTIONS) - 1
    largest = float(found.deviation["ros"].max())
    yield JudgedClaim(
        "theory", "Lemma 1: counts never stray further than |A| − 1 from visits·π, and never more than 1 above.",
        f"At all {found.visits[-1]} visits of all trials.",
        HOLDS if largest <= bound + 1e-6 and found.over["ros"] <= 1 + 1e-6 else FAILS,
        (f"largest {largest:.3f} ≤ {bound}, above {found.over['ros']:.3f}; on-policy {found.deviation['os'].max():.0f}",),
    )  # fmt: skip
    yield JudgedClaim(
        "theory", "Theorem 1: state visitation converges to that of the policy.",
        f"Largest error after {found.episodes[-1]} trajectories below a tenth of that after {found.episodes[0]}.",
        HOLDS if found.error["ros"][-1] < found.error["ros"][0] / 10 else FAILS,
        (f"{found.error['ros'][0]:.3f} → {found.error['ros'][-1]:.4f} (OS {found.error['os'][-1]:.4f})",),
    )  # fmt: skip
    yield JudgedClaim(
        "theory", "Theorem 2: KL of a state's action frequencies falls as 1/m² under ROS, 1/m on-policy.",
        "Log-log slopes within 0.25 of −2 and −1.",
        HOLDS if abs(found.slope["ros"] + 2) < 0.25 and abs(found.slope["os"] + 1) < 0.25 else FAILS,
        (f"slopes {found.slope['ros']:.2f} and {found.slope['os']:.2f}",),
    )  # fmt: skip
    error, printed, corrected = found.counter_example
    yield JudgedClaim(
        "theory", "Theorem 3 as printed: (v − MC)² ≤ Σ γ²ᵗ R²_max √(2 KL_t).",
        "No data set violates it. Its proof squares a sum as if (Σx)² ≤ Σx².",
        FAILS if error > printed else HOLDS,
        (f"two steps, π = ½, R = ±1, the one trajectory (a₀, a₀): squared error {error:g}, printed bound {printed:.2f}",),
    )  # fmt: skip
    worst = float((found.bounds[:, 0] / found.bounds[:, 2]).max())
    yield JudgedClaim(
        "theory", "Ours: Theorem 3 corrected, |v − MC| ≤ Σ γᵗ R_max √(2 KL_t), |R| ≤ R_max.",
        "No data set violates it.", HOLDS if worst <= 1.0 and error <= corrected else FAILS,
        (f"counter-example: {error:g} ≤ {corrected:.2f}; {len(found.bounds)} random MDPs: at most {worst:.2g} of it",),
    )  # fmt: skip
