"""What an evaluation found, as a record and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from evenroll.text.numbers import two_digits

WORTH_A_WORD = 1.1  # on-policy episodes per episode from which on the gain is mentioned


@dataclass(frozen=True)
class Quantity:
    """Another mean over the same trajectories: return (undiscounted), length, success."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        half = None if self.low is None or self.high is None else (self.high - self.low) / 2
        return f"{self.value:.5g}" if half is None else f"{self.value:.5g} ± {two_digits(half)}"


@dataclass(frozen=True)
class Evaluation:
    """The value of a policy, what it took, and an interval where one is valid (else `why` says why not).

    kl, gradient   how far the data is from on-policy (0: as if every action came out in its exact proportion)
    behavior_kl, behavior_largest, runs_away   how far π_b was from π_e, per step (collect.Divergence)
    interval, note, fallback, exact   how the interval was made and what to know about it (intervals.Interval)
    on_policy_episodes  how many independent on-policy episodes would give mc an interval as narrow
    policy         how it was run             quantities  what else the same trajectories tell
    action_share   share of the returns' variance found to come from the policy's own choices: what balancing can remove
    remark         what to know about this policy and environment, or None
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

    def to_json(self) -> dict[str, Any]:
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()}

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def _known(self) -> float | None:
        """The value itself, where the data determines it up to rounding; the estimate may be off by its imbalance."""
        return (self.low + self.high) / 2 if self.exact and self.low is not None and self.high is not None else None

    def __str__(self) -> str:
        half = self.half_width
        if self._known is not None:
            text = f"{self._known:.10g}, exact up to rounding"
        else:
            level = "" if half is None else f" ± {two_digits(half)} ({100 * self.confidence:g} %)"
            text = f"{self.value:.5g}{level}"
        text += f", {self.episodes} episodes"
        worth = self.on_policy_episodes
        if worth is not None and not self.exact and self.interval == "score" and worth > WORTH_A_WORD * self.episodes:
            text += f", as precise as ~{float(f'{worth:.2g}'):,.0f} on-policy ones"
        return text

    def in_words(self) -> str:
        """What was found: the value, its interval, and what the same precision costs on-policy."""
        half = self.half_width
        if half is None:
            return f"The policy is worth about {self.value:.5g}; no interval: {self.why}."
        level = f"{100 * self.confidence:g} %"
        if self._known is not None:
            text = f"The policy is worth {self._known:.10g}, exact up to rounding: {self.note}."
        else:
            text = f"The policy is worth {self.value:.5g} ± {two_digits(half)} ({level}: {self.low:.5g} … {self.high:.5g})."
            text += f" Note: {self.note}." if self.note else ""
        if self.on_policy_episodes is not None and not self.exact and self.interval == "score":
            times = self.on_policy_episodes / self.episodes
            if times <= WORTH_A_WORD:
                return text + self._remark()
            text += f" On-policy sampling would need about {self.on_policy_episodes:,.0f} episodes for this ({times:.2g}×)."
        return text + self._remark()

    def _remark(self) -> str:
        return "" if self.remark is None else f" {self.remark[0].upper()}{self.remark[1:]}."
