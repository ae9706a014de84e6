"""The sentences of report.html that depend on which targets the page shows.

A sentence that mentions a figure links to its section where the page has it, and otherwise speaks of the paper's figure.
"""

from __future__ import annotations

import html
from collections.abc import Collection
from string import Template

from evenroll.study.experiments import FULL, Scale
from evenroll.study.spending import DOUBLINGS, WRONG

ABOUT = {  # what to look for in a section
    "fig1": "How far the collected data is from on-policy. ROS pulls it in faster than chance does.",
    "fig2": "The error of the final estimate. Independent sampling must follow the dotted line; ROS and auto leave it.",
    "fig3": "100 slightly off-policy trajectories are there to begin with. ROS makes up for what they lack.",
    "fig4": "Too small a step does little; too large a step diverges on CartPole. The noise panels: ROS removes the noise "
    "of the policy's choices, not that of the rewards.",
    "fig5": "Where the policies act. These are our own evaluation policies, not the authors'.",
    "fig6": "KL divergence of the maximum-likelihood policy of the data from the policy that is evaluated.",
    "fig7": "The divergence of $fig6, starting from off-policy data.",
    "fig8": "A second measure of sampling error: the mean absolute entry of the log-likelihood's gradient.",
    "fig9": "The gradient's mean absolute entry, as in $fig8, starting from off-policy data.",
    "fig10": "A mean squared error can be the work of a few bad trials; a median cannot.",
    "fig11": "Medians, as in $fig10, with initial data.",
    "fig12": "The noise panels of $fig4, on GridWorld. At ε = 0 both errors are zero and there is no ratio.",
    "fig13": "Instead of collecting evenly, one can correct afterwards, weighting by the fitted policy (WRIS).",
    "fig14": "Fitted Q-evaluation by a network (2 × 64, batches of 256; the authors': 2 × 256, batches of 5,120), and in "
    "closed form: exact on tables, linear in the policy's features elsewhere.",
    "theory": "What the paper proves, on data. The bound of Theorem 3 as printed fails at the large cross, which lies below "
    "the dotted line. The corrected bound of the same data, the large diamond, holds.",
}  # fmt: skip

# How claims are judged where trials were added to decide them; the rule itself is in `spending`.
DECIDED = (
    "<p>Where the trials of a figure did not decide a claim, trials were added by a rule that stood before them: a look "
    f"after every doubling, at most {DOUBLINGS} of them, with intervals so much wider that a verdict on a claim is wrong "
    f"with a chance of at most {100 * WRONG:g} %, whenever one stops. Such a claim says how many trials it took, or why it "
    "is left undecided. Figures and tables are of their own trials only.</p>"
)

ESTIMATES = frozenset(("fig2", "fig3", "fig10", "fig11", "fig13", "table3", "table4"))
SWEEPS = frozenset(("fig4", "fig12"))
FITS = frozenset(("fig1", "fig6", "fig7", "fig8", "fig9", "fig13"))
TRIALS = ESTIMATES | SWEEPS | FITS | {"fig14"}  # targets that are drawn from trials

# Where we differ from the paper, and why. Each remark is made on pages that show one of its targets.
DIFFERENCES: tuple[tuple[frozenset[str], str], ...] = (
    (
        TRIALS | {"fig5"},
        "<b>Our own evaluation policies.</b> The authors' are not part of this package; ours were trained the same "
        "way (REINFORCE, a snapshot well above random and far from converged), with similar mean episode lengths. "
        "Absolute errors therefore differ by a factor, most on GridWorld: hold on-policy errors against theory, and "
        "ratios against ratios.",
    ),
    (
        frozenset(("table3", "table4")),
        "<b>The bandit column of the paper's tables 3 and 4 cannot come from the bandit that the paper describes.</b>"
        " Balancing actions removes the noise of choosing an arm, not that of the arm's reward. On our bandit the "
        "latter alone is $noise of on-policy sampling's error, so no way to sample whose returns are plainly averaged"
        " can reach the published ratio of 0.30. The curves the authors released are of one fixed bandit, like ours, "
        "and end at a ratio of 0.73, below that floor by chance (200 trials are ± 14 %). $bandits",
    ),
    (
        ESTIMATES,
        "<b>More trials on the fixed bandit.</b> What ROS can gain there does not show in 200 trials; an episode is "
        "one step, so errors are measured with more (see the top of the page).",
    ),
    (
        ESTIMATES | SWEEPS | {"fig5", "fig14"},
        "<b>Exact truth.</b> The authors' reference values are means of 10⁶ rollouts, whose own error is as large as "
        "the best published errors. Here finite domains are solved by dynamic programming; CartPole's values come "
        "from more than 10⁷ episodes.",
    ),
    (
        FITS,
        "<b>The fitted policy is the optimum.</b> The authors' π̂ (for KL and WRIS) stops after some Adam steps, "
        "short of the maximum of the likelihood where data is scarce; here Newton's method finds it. Early KL curves "
        "therefore lie above the published ones.",
    ),
    (
        ESTIMATES | SWEEPS | {"fig14"},
        "<b>No finished trajectory, no estimate.</b> The authors count 0 then, which is what the first published "
        "points mostly show. Here such trials are left out, and points where more than half are missing are not "
        "drawn.",
    ),
    (
        frozenset(("fig14",)),
        "<b>A smaller $fig14:</b> fewer checkpoints, and a smaller network with fewer trials, fitted afresh each time. Its "
        "settings were chosen among three by looking at the known value on one on-policy data set of each CartPole, "
        "one of the trials shown. At full size the authors' network is beside it for a few trials, and so is the "
        "closed form.",
    ),
    (
        TRIALS | {"fig5"},
        "<b>CartPole has two actions</b>, as in the authors' runs; the paper's text says three.",
    ),
    (
        frozenset(("theory",)),
        "<b>Theorem 3 is false as printed.</b> See $theory for the counter-example, and for what holds instead.",
    ),
)


def mentions(there: Collection[str]) -> dict[str, str]:
    """How each target is mentioned on a page that shows those that are `there`: by a link, or as the paper's."""
    words = {name: "the theory section" if name == "theory" else f"figure {name[3:]}" for name in ABOUT}
    return {k: f'<a href="#{k}">{w}</a>' if k in there else f"the paper’s {w}" for k, w in words.items()}


def about(name: str, there: Collection[str]) -> str:
    """What to look for in a section."""
    return Template(html.escape(ABOUT.get(name, ""), quote=False)).substitute(mentions(there))


def differences(there: Collection[str], noise: str, bandits: str) -> list[str]:
    """The remarks on where we differ that concern this page."""
    words = mentions(there)
    return [Template(t).substitute(words, noise=noise, bandits=bandits) for needs, t in DIFFERENCES if needs & set(there)]


def size(scale: Scale, there: Collection[str]) -> str:
    """How large the run is, and whether that is smaller than the paper. A page without trials says nothing of them."""
    if not TRIALS & set(there):
        return ""
    parts = [
        f"{scale.trials} trials of up to {scale.budget:,.0f} mean episodes (budgets are given in mean episode lengths, so "
        "that domains compare)"
    ]
    if SWEEPS & set(there):
        parts.append(f"{scale.sweep_trials} where a setting is varied")
    if ESTIMATES & set(there):
        parts.append(f"{scale.bandit_trials:,} for errors on the fixed bandit")
    if "fig14" in there:
        parts.append(f"{scale.fqe_trials} of figure 14’s small network")
    text = f"{'; '.join(parts)}."
    if scale.trials >= FULL.trials and scale.budget >= FULL.budget:
        return text
    paper = f"{FULL.trials} trials of {FULL.budget:,.0f}"
    return f'<span class="badge">Smaller than the paper</span> {text} The paper has {paper}. Expect “cannot tell”.'
