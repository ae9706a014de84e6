"""What an evaluation found, as a record and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenroll.collection.rollouts import Rollouts
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import DataError
from evenroll.evaluation.noise import NoiseBudget
from evenroll.evaluation.presenting import Presented, of_plain, page_piece
from evenroll.evaluation.report_page import evaluation_page
from evenroll.evaluation.running_estimate import draw_running, running
from evenroll.files.figures import save_figure
from evenroll.files.pages import save_page
from evenroll.text.numbers import precise, with_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORTH_A_WORD = 1.1  # a gain is mentioned if on-policy sampling would need more than this many times the episodes; a choice


@dataclass(frozen=True)
class Quantity:
    """Another mean over the same trajectories: the undiscounted return, the length, or the share of successes."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return with_interval(self.value, self.low, self.high)


@dataclass(frozen=True)
class Evaluation(Presented):
    """The value of a policy, its interval, and how the data was collected. A field is None where there is nothing to tell.

    value                  The estimate of the policy's value, its expected return.
    low, high              The interval, which holds the true value with probability `confidence`.
    confidence             The confidence that was asked for, such as 0.95.
    why                    The reason why there is no interval. It is None if there is one.
    interval               How the interval was made: t, bca, bernstein, binomial or score.
    note                   What to know about the interval.
    fallback               Whether the interval is wider than its method alone would make it, because data is scarce.
    exact                  Whether the data determines the value up to rounding. Then the interval holds the value, and
                           the estimate may lie outside.
    on_policy_episodes     How many independent on-policy episodes would give `mc` an interval as narrow as this one.
    episodes               The number of finished trajectories, those of the initial data included.
    steps                  The number of environment steps, those of the initial data included.
    terminated             How many trajectories the environment ended.
    truncated              How many trajectories a time limit cut.
    unfinished             Whether a last trajectory had begun and not ended, as 1 or 0. It does not count in the value.
    sampler                The sampler that chose the actions, with its parameters.
    estimator              The name of the estimator.
    domain                 The name of the domain or environment.
    gamma                  The discount.
    seed                   The seed. The same call with the same seed gives the same numbers.
    kl, gradient           How far the data is from on-policy, by the paper's two measures. Both are 0 if every action came
                           out in its exact proportion.
    behavior_kl            How far the behaviour π_b was from π_e: the mean of KL(π_b ‖ π_e) over the steps, in nats.
    behavior_largest       The largest |log π_b/π_e| of an action that was looked at.
    runs_away              Whether the actions are surely farther from balance than on-policy sampling would leave them.
    effective_sample_size  How many equally weighted trajectories the importance weights are worth.
    largest_weight         The largest importance weight's share of all weight.
    policy                 How the policy was run, in a few words.
    action_share           The share of the returns' variance that was found to come from the policy's own choices.
    remark                 What to know about this policy and environment.
    quantities             Other means over the same trajectories, by name: return (undiscounted), length and success.
    warnings               What stands around the environment and changes what the value means: wrappers that still learn,
                           that scale or clip rewards, or that end an episode with every lost life.
    mean                   The plain mean of the returns, with an interval of its own.
    resets                 How many further resets showed what starts there are. No step was taken from them.
    no_resets              Why there were no further resets, or fewer than were asked for.
    noise                  Where the noise of the returns comes from, as far as it was found.
    interrupted            Whether collecting was interrupted, so that there is less data than was asked for.
    rollouts               The data itself. It is None in a result that was read from JSON or unpickled.

    `float(result)` is the value, `print(result)` a line. `to_json`, `from_json` and `to_frame` are for other programs,
    `plot` draws how the estimate came about, `report` writes a web page, and a notebook shows the result as a piece of its
    page.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    why: str | None
    interval: str | None
    note: str | None
    fallback: bool
    exact: bool
    on_policy_episodes: float | None
    episodes: int
    steps: int
    terminated: int
    truncated: int
    unfinished: int
    sampler: str
    estimator: str
    domain: str
    gamma: float
    seed: int
    kl: float | None
    gradient: float | None
    behavior_kl: float
    behavior_largest: float
    runs_away: bool
    effective_sample_size: float | None
    largest_weight: float | None
    policy: str | None = None
    action_share: float | None = None
    remark: str | None = None
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    interrupted: bool = False
    mean: Quantity | None = None
    resets: int = 0
    no_resets: str | None = None
    noise: NoiseBudget | None = None
    rollouts: Rollouts | None = field(default=None, repr=False, compare=False)
    _looked: Any = field(default=None, repr=False, compare=False)  # (Seen, Look), from which `plot` makes earlier estimates
    _call: str | None = field(default=None, repr=False, compare=False)  # the Python line that made it, for `report`

    @classmethod
    def from_json(cls, told: Mapping[str, Any] | str) -> Evaluation:
        """The result of which `to_json` has told, without its data. What this version does not know is left out."""
        return of_plain(
            cls, told, quantities=lambda x: {name: Quantity(**q) for name, q in x.items()}, mean=lambda x: Quantity(**x),
            noise=lambda x: NoiseBudget(**x), warnings=tuple,
        )  # fmt: skip

    def plot(self, path: str | Path | None = None) -> Figure:
        """How the estimate came about: its value and interval after ever more episodes, and where the noise comes from.

        If there is a `path`, the picture is saved there, in the format that its name says.
        """
        if self._looked is None:
            raise DataError("a result that was read from JSON or unpickled has no data to draw: evaluate again")
        with single_threaded_blas():
            seen, look = self._looked
            run = running(seen, look, self.confidence)
        figure = draw_running(run, f"{self.domain}: {self}", self.noise)
        if path is not None:
            save_figure(figure, path)
        return figure

    def report(self, path: str | Path, command: str | None = None) -> Path:
        """Write all that was found as one web page, with its pictures, that needs nothing else (`.html`).

        command  the command that repeats the evaluation, if it was not a call in Python
        """
        save_page(evaluation_page(self, command), path)
        return Path(path)

    def _repr_html_(self) -> str:
        return page_piece(str(self), self.in_words(), self.noise)

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def _known(self) -> float | None:
        """The value itself, if the data determines it up to rounding. The estimate may be off by its imbalance."""
        return (self.low + self.high) / 2 if self.exact and self.low is not None and self.high is not None else None

    def number(self) -> str:
        """The value with its interval, as `print` begins."""
        if self._known is not None:
            return f"{self._known:.10g}, exact up to rounding"
        text = with_interval(self.value, self.low, self.high, level=f"{100 * self.confidence:g} %")
        return text + (" (no interval)" if self.low is None else "")

    def __str__(self) -> str:
        text = f"{self.number()}, {self.episodes} episodes"
        worth = self.on_policy_episodes
        if worth is not None and self.gains:
            text += f", as precise as ~{float(f'{worth:.2g}'):,.0f} on-policy ones"
        return text + (", interrupted" if self.interrupted else "")

    @property
    def gains(self) -> bool:
        """Whether on-policy sampling would need so many more episodes for the same interval that it is worth a word."""
        worth = self.on_policy_episodes
        return worth is not None and not self.exact and self.interval == "score" and worth > WORTH_A_WORD * self.episodes

    def in_words(self) -> str:
        """What was found: the value, its interval, what the same precision costs on-policy, and what to beware of."""
        return self.worth() + self._remark() + "".join(f" Warning: {text}." for text in self.warnings)

    def worth(self) -> str:
        """The value, its interval with what to know about it, and what the same precision costs on-policy."""
        if self.low is None or self.high is None:
            return f"The policy is worth about {self.value:.5g}; no interval: {self.why}."
        level = f"{100 * self.confidence:g} %"
        if self._known is not None:
            return f"The policy is worth {self._known:.10g}, exact up to rounding: {self.note}."
        number, half = with_interval(self.value, self.low, self.high), self.half_width or 0.0
        number = number if "±" in number else precise(self.value, half)
        text = f"The policy is worth {number} ({level}: {precise(self.low, half)} … {precise(self.high, half)})."
        text += f" Note: {self.note}." if self.note else ""
        if self.on_policy_episodes is not None and self.gains:
            times = self.on_policy_episodes / self.episodes
            text += f" On-policy sampling would need about {self.on_policy_episodes:,.0f} episodes for this ({times:.2g}×)."
        return text

    def noise_in_words(self) -> str:
        """One sentence on where the noise of the returns comes from; nothing where that is not known."""
        if self.noise is None or self.exact:
            return ""
        known = self.sampler != "os" or self.action_share != 0.0
        return self.noise.in_words(self.episodes, known, self.estimator == "score")

    def _remark(self) -> str:
        """What else there is to know: the plain mean beside another estimate, the noise, and what the source remarks."""
        said: list[str | None] = []
        if self.low is not None and self.high is not None:
            if self.mean is not None and self.estimator != "mc" and not self.exact:
                said.append(f"the plain mean of the returns is {self.mean}")
            said += [self.noise_in_words(), self.no_resets]
        return "".join(f" {text[0].upper()}{text[1:]}." for text in (*said, self.remark) if text)
