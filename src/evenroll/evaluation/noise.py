"""Where the noise of the returns comes from, and what was done about it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenroll.estimators.score_regression import ScoreRegression

FEWEST = 8  # with fewer episodes the shares say nothing; as FEWEST of the intervals
NOTHING = 0.005  # a smaller share would be printed as 0 %


@dataclass(frozen=True)
class NoiseBudget:
    """Shares of the variance of one episode's return, each with its standard error.

    actions  what was found to be luck of the policy's own choices
    starts   what was found to be luck of the start; None if no further resets show what starts there are
    left     the rest: the environment's own noise, and choices and starts whose worth these episodes do not show
    """

    actions: float
    actions_error: float
    starts: float | None
    starts_error: float | None
    left: float

    def in_words(self, episodes: int, known: bool, taken_out: bool) -> str:
        """One sentence on what was found and what was not.

        known      whether the policy's probabilities are known, so that its luck could be looked for
        taken_out  whether the estimate is one that takes out what was found
        """
        looked_for = [("luck of the policy's choices", self.actions, self.actions_error)] if known else []
        if self.starts is not None and self.starts_error is not None:
            looked_for.append(("luck of the start", self.starts, self.starts_error))
        if not looked_for:
            return ""
        found = [f"{share:.0%} ± {_error(error)} {name}" for name, share, error in looked_for if share >= NOTHING]
        nothing = [f"{name} (± {_error(error)})" for name, share, error in looked_for if share < NOTHING]
        rest = f"the environment's own noise, and what {episodes} episodes do not show"
        if not found:
            return f"No {' and no '.join(nothing)} was found in the returns: their variance is {rest}"
        text = f"Of the variance of one return, {' and '.join(found)} was found{' and is taken out' if taken_out else ''}"
        text += "".join(f", and no {name}" for name in nothing)
        return f"{text}; {self.left:.0%} is left: {rest}"


def _error(error: float) -> str:
    return f"{max(error, 0.01):.0%}"


def noise_budget(fit: ScoreRegression | None, episodes: int) -> NoiseBudget | None:
    """The budget that a fit found; None where episodes are too few to tell."""
    if fit is None or episodes < FEWEST or not math.isfinite(fit.explained):
        return None
    starts = fit.starts
    return NoiseBudget(
        min(fit.actions.value, 1.0), fit.actions.error,
        None if starts is None else min(starts.value, 1.0), None if starts is None else starts.error,
        1.0 - fit.explained,
    )  # fmt: skip
