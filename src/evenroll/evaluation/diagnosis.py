"""How far a data set is from on-policy, where, and what it would take to repair it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenroll.adapters.model import Model, as_model
from evenroll.collection.given_data import as_rollouts
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.seeing import see
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import DataError, NoEstimate
from evenroll.estimators.imbalance import imbalance
from evenroll.estimators.sampling_error import gradient_sampling_error, kl_sampling_error
from evenroll.estimators.score_regression import score_regression
from evenroll.policies import External, TabularSoftmax
from evenroll.policies.distributions import Categorical, Distribution
from evenroll.samplers.auto_network import gain

BANDS = 3  # parts with equally many steps into which each number of the observations is cut; a choice
SHOWN = 12  # cells that a diagnosis lists; a choice


@dataclass(frozen=True)
class Cell:
    """How often an action was taken in a part of the states, and how often π_e would be expected to take it there.

    z says how far the two are apart, in standard deviations of on-policy chance. A real action is measured from π_e's mean
    in units of π_e's scale. There `taken` is its mean, which is expected to be 0 ("higher"), or its mean square, which is
    expected to be 1 ("wider").
    """

    where: str
    action: str
    taken: float
    expected: float
    z: float


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found.

    kl, gradient     the paper's two measures of sampling error; kl is None where the policy's network runs elsewhere
    excess           the imbalance of the scores relative to chance: on-policy data has about 1, and less is better
    excess_error     the standard deviation that the excess of on-policy data has by chance
    directions       how many scores can be out of balance (estimators/imbalance.py)
    value            the mean return
    balanced         the estimate with the luck of the actions taken out; None if there are too few episodes
    repair_steps     about how many new steps of `auto` bring the excess down to 1; 0 if chance explains it already
    chance           the |z| that the worst of all the cells has by chance alone
    cells            the parts of the data that are farthest off, the worst first
    """

    episodes: int
    steps: int
    mean_length: float
    kl: float | None
    gradient: float
    excess: float
    excess_error: float
    directions: int
    value: float
    balanced: float | None
    repair_steps: int
    chance: float
    cells: tuple[Cell, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def repair_episodes(self) -> int:
        return math.ceil(self.repair_steps / self.mean_length)

    def in_words(self) -> str:
        chance = f"excess {self.excess:.2g}, where on-policy data has 1 ± {self.excess_error:.1g}"
        if self.excess < 1.0 - 2.0 * self.excess_error:
            text = f"The data is better balanced than on-policy data would be ({chance})."
        elif self.excess <= 1.0 + 2.0 * self.excess_error:
            text = f"The data is as balanced as on-policy data would be ({chance})."
        else:
            text = (
                f"The data is off: its scores are {math.sqrt(self.excess):.3g} times as far from balance as chance would "
                f"have them. About {self.repair_episodes:,} new episodes of auto ({self.repair_steps:,} steps) repair it."
            )
        if self.balanced is not None:
            text += f" Mean return {self.value:.5g}; with the actions' luck taken out {self.balanced:.5g}."
        return text


def diagnose(data: Any, policy: Any) -> Diagnosis:
    """Compare a data set with the policy it is meant to be on.

    data    rollouts, a file of them, a data frame with their columns, or a Minari dataset
    policy  a policy that knows its spaces (ours, or Stable-Baselines3's), or what `as_model` made of another
    """
    with single_threaded_blas():  # threads inside small products only wait for each other
        return _diagnosis(as_rollouts(data), policy if isinstance(policy, Model) else as_model(policy, None, None))


def _diagnosis(data: Rollouts, model: Model) -> Diagnosis:
    if data.episodes == 0:
        raise DataError("no finished episode in it")
    data = see(model, data)
    engine = model.engine
    assert engine is not None
    _, outputs = model.of_rows(data.column("observations"), data.all_lengths)
    observations, actions = data.column("observations"), data.column("actions")
    distribution = model.actions.distribution
    scores, spread = distribution.scores(outputs, actions), distribution.variances(outputs)
    found = imbalance(data, engine)
    off = found.excess > 1.0 + 2.0 * found.error
    try:
        balanced = score_regression(data, engine).value
    except NoEstimate:
        balanced = None
    cells = cells_of(observations, scores, spread, distribution, isinstance(engine, TabularSoftmax))
    return Diagnosis(
        episodes=data.episodes,
        steps=data.steps,
        mean_length=float(data.lengths.mean()),
        kl=None if isinstance(engine, External) else kl_sampling_error(data, engine),
        gradient=gradient_sampling_error(data, engine),
        excess=found.excess,
        excess_error=found.error,
        directions=max(round(found.directions), 1),
        value=float(data.returns.mean()),
        balanced=balanced,
        repair_steps=repair_steps(found.excess, round(found.directions), data.steps, float(data.lengths.mean()))
        if off
        else 0,
        chance=worst_by_chance(len(cells)),
        cells=tuple(sorted(cells, key=lambda c: -abs(c.z))[:SHOWN]),
    )


def repair_steps(excess: float, directions: int, steps: int, length: float) -> int:
    """The number of steps of `auto` until S² is what chance would make it.

    S² shrinks by a factor 1 − 2c a step, where c is the `gain`. What chance makes it grows as k, so the excess shrinks by
    (1 − 2c) k/(k + 1) a step. This is a prediction, because the states must come up again.
    """
    k, log_excess = steps, math.log(max(excess, 1e-300))
    taken = 0
    while log_excess > 0.0:
        stride = max(k // 100, 1)
        c = gain(directions, k, length)
        log_excess += stride * (math.log1p(-2.0 * c) if c < 0.5 else -1.0) - math.log1p(stride / k)
        k += stride
        taken += stride
    return taken


def worst_by_chance(cells: int) -> float:
    """The |z| that the worst of so many cells has by chance alone."""
    return math.sqrt(2.0 * math.log(max(cells, 2)))


def cells_of(
    observations: np.ndarray, scores: np.ndarray, spread: np.ndarray, distribution: Distribution, table: bool
) -> list[Cell]:
    """Counts against expectations, for every state of a table, or for the lower, middle and upper third of each number."""
    groups: list[tuple[str, np.ndarray]] = [("anywhere", np.ones(len(scores), bool))]
    if table:
        states = observations[:, 0].astype(np.int64)
        groups += [(f"state {s}", states == s) for s in np.unique(states)]
    else:
        for i in range(min(observations.shape[1], 64)):
            cuts = np.quantile(observations[:, i], np.arange(1, BANDS) / BANDS)
            band = np.searchsorted(cuts, observations[:, i], side="right")
            limits = [-math.inf, *cuts, math.inf]
            for b in range(BANDS):
                if 0 < (band == b).sum() < len(band):
                    low, high = limits[b], limits[b + 1]
                    inside = f"≥ {low:.3g}" if high == math.inf else f"< {high:.3g}"
                    text = inside if math.inf in (-low, high) else f"{low:.3g} … {high:.3g}"
                    groups.append((f"x{i} {text}", band == b))
    cells = []
    for part, rows in groups:
        total, variance, n = scores[rows].sum(axis=0), spread[rows].sum(axis=0), int(rows.sum())
        for j, name in enumerate(distribution.score_names):
            if variance[j] <= 0.0:
                continue
            z = float(total[j] / math.sqrt(variance[j]))
            if isinstance(distribution, Categorical):
                taken = float(round(_taken(scores[rows, j])))
                cells.append(Cell(part, name, taken, taken - float(total[j]), z))
            elif j < distribution.action_dim:
                cells.append(Cell(part, name, float(total[j]) / n, 0.0, z))
            else:
                cells.append(Cell(part, name, 1.0 + math.sqrt(2.0) * float(total[j]) / n, 1.0, z))
    return cells


def _taken(scores: np.ndarray) -> float:
    """How often the action was taken. Its score is 1 − π ≥ 0 where it was taken, and −π where it was not."""
    return float((scores >= 0).sum())
