"""What is taken out of each episode's value: the luck of its actions, and the luck of its start.

Episode i is corrected only with what was learnt, chosen and weighed without it. For every fold (group of episodes) the other
folds say which of an action part's ways explains most, with which slope β, and what starts are worth:

    e_i = values_i − Σ β·C_i − [B(s₀ᵢ) − mean of B over all starts that are known]

So e are honest: their variance is what is left by corrections that did not know them. If the choice were made with all
episodes, the best of sixteen ways would explain a third of eight episodes' returns by chance alone.

A slope from few episodes is noisy, and is held back (James and Stein 1961): with F = β²ΣC²/s² it is multiplied by
max(0, 1 − 3/F), and a negative one becomes 0, because luck does not count backwards.

The variance of e is that of a mean whose actions are as lucky as chance makes them: it holds what Â gets wrong, times the
luck. Balanced data has no such luck, and what Â gets wrong about it costs nothing. So its error is smaller: that of the best
Â that there is. Nobody knows that one, but it lies between two that are known: an Â that was learnt without the episode
errs more about it, and one that was learnt with it errs less. For least squares with p weights, the two mean squares are
(1 + p/n) and (1 − p/n) times the best, to first order, and the best is halfway between. An Â that is held back, as ours is,
leaves more of the luck to both, and the best lies nearer to the second (docs/experiments-intervals.md, "What is hidden").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenroll.estimators.action_part import ActionPart
from evenroll.estimators.start_part import Starts

HELD = 3.0  # how much slopes are held back; of 1, 3 and 6 it changes nothing at 64 episodes (docs/experiments-intervals.md)
BETWEEN = 0.75  # where the best Â is taken to lie, from one learnt without an episode (0) to one learnt with it (1)
ROUNDING = 1e-12  # a part that is smaller than this share of the values is rounding errors, and explains nothing
FOLDS = 10  # groups of episodes; each is corrected with what the other nine tell; a choice
MANY, FEW = 1000, 3  # of so many episodes two thirds teach as much as nine tenths, in a third of the time; a choice


@dataclass(frozen=True)
class Corrections:
    """What is taken out of each of n values.

    actions, starts  [n] the two parts
    by_actions       how much the mean of the values owes to unbalanced actions (see `ActionPart` for why this is not
                     always the mean of `actions`)
    by_starts        how much it owes to its starts
    noise            the variance that the mean over the resets has, because they are many, but not all
    hidden           how much of the variance of what is left is not in the error of the mean, because the data is balanced
    """

    actions: np.ndarray
    starts: np.ndarray
    by_actions: float
    by_starts: float
    noise: float
    hidden: float = 0.0

    def left(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values - self.actions - self.starts)


def folds_of(n: int) -> int:
    """How many folds n episodes form. Episodes i ≡ k (mod folds) are the k-th."""
    return FEW if n >= MANY else min(FOLDS, n)


def corrections(values: np.ndarray, parts: Sequence[ActionPart], starts: Starts | None = None) -> Corrections:
    """The corrections of some values. A kind of correction that would leave more than it takes is not made."""
    made = _fold_by_fold(values, parts, starts)
    total = float(values.var())
    if starts is not None and float((values - made.actions - made.starts).var()) >= float((values - made.actions).var()):
        made = _fold_by_fold(values, parts, None)
    if parts and float(made.left(values).var()) >= total:
        made = _fold_by_fold(values, (), starts)
    if float(made.left(values).var()) >= total:
        made = _fold_by_fold(values, (), None)
    return made


def _fold_by_fold(values: np.ndarray, parts: Sequence[ActionPart], starts: Starts | None) -> Corrections:
    n = len(values)
    fold = np.arange(n) % folds_of(n)
    actions, begun, noise = np.zeros((len(parts), n)), np.zeros(n), 0.0
    for k in range(int(fold.max()) + 1):
        others = fold != k
        left = values
        for i, (part, chosen) in enumerate(zip(parts, _ways(values, parts, starts, others), strict=True)):
            actions[i, ~others] = chosen.slope * part.apart[~others, chosen.way]
            left = left - chosen.slope * part.apart[:, chosen.way]
        learnt = None if starts is None else starts.learn(left, others)
        if learnt is not None:
            begun[~others] = learnt.part[~others]
            noise += learnt.noise / (fold.max() + 1)
    left = values - actions.sum(axis=0) - begun
    by_actions, hidden = 0.0, 0.0
    everything = np.ones(n, dtype=bool)
    for i, (part, chosen) in enumerate(zip(parts, _ways(values, parts, starts, everything), strict=True)):
        loose, balanced = min(part.loose, 1.0), chosen.slope > 0.0 and part.loose < 1.0
        together = _together(part, chosen) if balanced else 0.0
        by_actions += loose * float(actions[i].mean()) + (1.0 - loose) * together
        if balanced and part.inside is not None:
            inside = left + actions[i] - chosen.slope * part.inside(chosen.way)
            hidden += BETWEEN * (1.0 - loose) * max(float(left.var() - inside.var()), 0.0)
    return Corrections(actions.sum(axis=0), begun, by_actions, float(begun.mean()), noise, hidden)


class Chosen(NamedTuple):
    """The way of a part that was chosen, its slope, and the values [n] that the part had to explain."""

    way: int
    slope: float
    values: np.ndarray


def _ways(values: np.ndarray, parts: Sequence[ActionPart], starts: Starts | None, among: np.ndarray) -> list[Chosen]:
    """For every part the way and the slope that the episodes of the mask `among` choose.

    A first idea of what starts are worth is taken out before, because a slope is as noisy as the values that it explains.
    """
    learnt = None if starts is None or not parts else starts.learn(values, among)
    left = values if learnt is None else values - learnt.part
    found = []
    for part in parts:
        way, slope = best_way(left[among], part.apart[among])
        found.append(Chosen(way, slope, left))
        left = left - slope * part.apart[:, way]
    return found


def _together(part: ActionPart, chosen: Chosen) -> float:
    """How much the mean owes to a part that is balanced: with an Â of all episodes, held back if it can be."""
    if part.firm is None:
        return chosen.slope * part.together(chosen.way)
    firm = part.firm[chosen.way]
    return min(best_way(chosen.values, part.apart[:, firm : firm + 1])[1], 1.0) * part.together(firm)


def best_way(values: np.ndarray, apart: np.ndarray) -> tuple[int, float]:
    """(the column of C [n, K] that explains most of the values, its slope, held back as the module says).

    Where no action was taken twice, a table knows nothing of any, and its C are 0 but for rounding errors. They would have a
    slope of 10¹⁵.
    """
    y, X = values - values.mean(), apart - apart.mean(axis=0)
    power, along = np.einsum("ij,ij->j", X, X), X.T @ y
    sound = power > len(y) * (ROUNDING * float(np.abs(values).max(initial=0.0))) ** 2
    slopes = np.divide(np.maximum(along, 0.0), power, out=np.zeros(len(power)), where=sound)
    explained = slopes * along
    way = int(explained.argmax())
    if explained[way] <= 0.0:
        return way, 0.0
    variance = max(float(y @ y) - float(explained[way]), 0.0) / max(len(y) - 2, 1)
    return way, float(slopes[way]) * max(0.0, 1.0 - HELD * variance / float(explained[way]))
