"""Where the noise of the returns comes from, and what was done about it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from evenroll.collection.rollouts import Rollouts
from evenroll.estimators.score_regression import FEWEST, ScoreRegression
from evenroll.estimators.variance_components import Component, Components, variance_components
from evenroll.policies import Policy

TOO_ROUGH = 0.2  # with a larger standard error than this, what is left is not told apart; a choice
NOTHING = 0.005  # a smaller share would be printed as 0 %


@dataclass(frozen=True)
class NoiseBudget:
    """Shares of the variance of one episode's return, each with its standard error.

    actions  what was found to be luck of the policy's own choices
    starts   what was found to be luck of the start; None if no further resets show what starts there are
    left     the rest: the environment's own noise, and choices and starts whose worth these episodes do not show
    actions_left, starts_left, environment  what the rest consists of: choices and starts whose worth these episodes do not
             show, and the environment's own noise with all that the features do not describe. They are None if they cannot
             be told apart. Together they are `left`.
    left_error  the standard error of actions_left + starts_left, and so of `environment`
    certain  whether the environment is known to leave nothing to chance
    """

    actions: float
    actions_error: float
    starts: float | None
    starts_error: float | None
    left: float
    actions_left: float | None = None
    starts_left: float | None = None
    environment: float | None = None
    left_error: float | None = None
    certain: bool = False

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
        rest = self._rest(episodes, known)
        if not found:
            return f"No {' and no '.join(nothing)} was found in the returns: their variance is {rest}"
        text = f"Of the variance of one return, {' and '.join(found)} was found{' and is taken out' if taken_out else ''}"
        text += "".join(f", and no {name}" for name in nothing)
        return f"{text}; {self.left:.0%} is left: {rest}"

    def _rest(self, episodes: int, known: bool) -> str:
        """What is left, told apart where that is possible."""
        if self.actions_left is None or self.starts_left is None or self.environment is None:
            return f"the environment's own noise, and what {episodes} episodes do not show"
        parts = [f"{self.actions_left:.0%} choices"] if known else []
        parts += [f"{self.starts_left:.0%} starts"] if self.starts is not None else []
        hidden = f"{' and '.join(parts)} whose worth {episodes} episodes do not show"
        if self.certain:
            return hidden
        return (
            f"{hidden} (± {_error(self.left_error or 0.0)}), and {self.environment:.0%} the environment's own noise, or "
            "what these features do not describe"
        )


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


def told_apart(budget: NoiseBudget, data: Rollouts, policy: Policy | None, certain: bool = False) -> NoiseBudget:
    """The budget with the rest told apart, as far as the data allows."""
    budget = replace(budget, certain=certain)
    return split(budget, variance_components(data, policy)) if budget.left > 0.0 else budget


def split(found: NoiseBudget, all_of_it: Components) -> NoiseBudget:
    """The budget with the rest told apart, as far as the components allow.

    Of each kind there is what the products of the returns suggest, less what was found; at least nothing, and in all no
    more than what is left. Where the environment leaves nothing to chance, all that is left is one of the two.
    """
    actions, starts = all_of_it.actions, all_of_it.starts
    errors = [part.error for part in (actions, starts) if part is not None]
    error = math.hypot(*errors) if errors else math.inf
    more = [_beyond(actions, found.actions), _beyond(starts, found.starts or 0.0)]
    total = sum(more)
    if found.certain:
        scale = found.left / total if total > 0.0 else 0.0
        if scale == 0.0:
            more, scale = [found.left if actions is not None else 0.0, 0.0 if actions is not None else found.left], 1.0
        error = 0.0
    elif not error <= TOO_ROUGH:
        return found
    else:
        scale = min(1.0, found.left / total) if total > 0.0 else 1.0
    a, s = (scale * part for part in more)
    return NoiseBudget(
        found.actions, found.actions_error, found.starts, found.starts_error, found.left,
        a, s, max(found.left - a - s, 0.0), error, found.certain,
    )  # fmt: skip


def _beyond(part: Component | None, found: float) -> float:
    return 0.0 if part is None else min(max(part.share - found, 0.0), 1.0)
