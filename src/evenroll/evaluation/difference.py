"""Which of two policies is better, and by how much: both meet the same starts, so that luck with those cancels.

Let G_i and H_i be the returns of the two policies from start i, and C_i and E_i their action parts
(estimators/score_regression.py). Then

    G_i − H_i = d + β C_i − β′ E_i + [B(s₀ᵢ) − its mean] + ε_i,

where B is what the start has to do with the difference (estimators/start_part.py). The estimate is the mean difference
without these parts, and its interval is made as that of `score` (intervals/balanced.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import DataError, Interrupted, SpecError
from evenroll.estimators import get_estimator
from evenroll.estimators.score_regression import action_parts, regress
from evenroll.estimators.start_part import starts_of
from evenroll.evaluation.difference_picture import draw_pairs, paired
from evenroll.evaluation.evaluate import DEFAULT_ESTIMATOR, Budget, Progress, evaluate_source
from evenroll.evaluation.interruption import result_so_far, with_data
from evenroll.evaluation.looking import Look, beyond_floats
from evenroll.evaluation.presenting import Presented, of_plain, page_piece
from evenroll.evaluation.report_page import difference_page
from evenroll.evaluation.result import Evaluation
from evenroll.evaluation.sources import EnvironmentSource, Source
from evenroll.files.figures import save_figure
from evenroll.files.pages import save_page
from evenroll.intervals.balanced import balanced_interval
from evenroll.intervals.independent import Interval, NoInterval
from evenroll.intervals.outcomes import around, as_far_as_seen, other_outcomes, rare_differences
from evenroll.samplers.table import SamplerLike
from evenroll.text.calls import written_call
from evenroll.text.numbers import precise, with_interval
from evenroll.text.specs import whole_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST = 4  # episodes of each policy that a difference needs


@dataclass(frozen=True)
class Difference(Presented):
    """How much more the first policy is worth than the second.

    value       the estimate of the difference: the first policy's value minus the second's. It is made of the paired
                returns, with the luck found in them taken out, and may differ a little from first.value − second.value.
    low, high   the interval, which holds the true difference with probability `confidence`; None if there is none
    confidence  the confidence of the interval
    why         the reason why there is no interval; None if there is one
    note        what to know about the interval, or None
    alone       the half-width if each policy had met its own starts, for comparison; None if one has no interval
    first       the evaluation of the first policy
    second      the evaluation of the second policy
    interrupted  whether collecting was interrupted, so that fewer starts are compared than was asked for
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    why: str | None
    note: str | None
    alone: float | None
    first: Evaluation
    second: Evaluation
    interrupted: bool = False
    _call: str | None = field(default=None, repr=False, compare=False)  # the Python line that made it, for `report`

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def rollouts(self) -> tuple[Rollouts | None, Rollouts | None]:
        """The data of both policies; None in a result that was read from JSON or unpickled."""
        return self.first.rollouts, self.second.rollouts

    @classmethod
    def from_json(cls, told: Mapping[str, Any] | str) -> Difference:
        """The result of which `to_json` has told, without its data. What this version does not know is left out."""
        return of_plain(cls, told, first=Evaluation.from_json, second=Evaluation.from_json)

    def plot(self, path: str | Path | None = None) -> Figure:
        """The difference of every pair of episodes, their running mean, and the interval of what was found.

        If there is a `path`, the picture is saved there, in the format that its name says.
        """
        first, second = self.rollouts
        if first is None or second is None:
            raise DataError("a result that was read from JSON or unpickled has no data to draw: compare again")
        interval = None if self.low is None or self.high is None else (self.low, self.high)
        figure = draw_pairs(paired(first.returns, second.returns), self.value, interval, self.confidence, str(self))
        if path is not None:
            save_figure(figure, path)
        return figure

    def report(self, path: str | Path, command: str | None = None) -> Path:
        """Write the verdict and both evaluations as one web page, with its pictures, that needs nothing else (`.html`).

        command  the command that repeats the comparison, if it was not a call in Python
        """
        save_page(difference_page(self, command), path)
        return Path(path)

    def _repr_html_(self) -> str:
        return page_piece(str(self), self.in_words(), None)

    def number(self) -> str:
        """The difference with its interval, as `print` begins."""
        text = with_interval(self.value, self.low, self.high, "+", f"{100 * self.confidence:g} %")
        return text + (" (no interval)" if self.low is None else "")

    def __str__(self) -> str:
        return f"{self.number()}, {self.first.episodes} episodes each" + (", interrupted" if self.interrupted else "")

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of both evaluations, each once."""
        return tuple(dict.fromkeys((*self.first.warnings, *self.second.warnings)))

    def in_words(self) -> str:
        return self.worth() + "".join(f" Warning: {text}." for text in self.warnings)

    def verdict(self) -> str:
        """Which policy is better, as far as the interval tells."""
        if self.low is None or self.high is None:
            return "Which is better cannot be told"
        if self.low > 0.0:
            return "The first policy is better"
        return "The second policy is better" if self.high < 0.0 else "Which is better cannot be told yet"

    def worth(self) -> str:
        """The verdict, both values, and the interval of their difference with what to know about it."""
        half = self.half_width or 0.0
        values = f"{precise(self.first.value, half)} against {precise(self.second.value, half)}"
        if self.low is None or self.high is None:
            return f"{self.verdict()}: {values}; no interval: {self.why}."
        note = "" if self.note is None else f" Note: {self.note}."
        low, high = precise(self.low, half, sign="+"), precise(self.high, half, sign="+")
        return f"{self.verdict()}: {values}, a difference of {low} … {high}.{note}"


def difference(
    env: Any,
    first: Any,
    second: Any,
    *,
    sampler: SamplerLike = "auto",
    episodes: int = 100,
    gamma: float = 1.0,
    seed: int = 0,
    confidence: float = 0.95,
    horizon: int | None = None,
    deterministic: bool = False,
    resets: int | None = None,
    initial: tuple[Rollouts | None, Rollouts | None] = (None, None),
    progress: Callable[[Progress], None] | None = None,
    warned: tuple[str, ...] = (),
) -> Difference:
    """Evaluate two policies on the same starts of one environment, `episodes` each, and compare them.

    A vector environment is reset as a whole for every round of episodes, one of each lane, because only then are its
    starts known. Lanes that have ended wait for the longest episode of their round.

    initial  what each policy has collected before, with this seed and from the first start on; `episodes` counts it.
             So an interrupted difference goes on: Ctrl-C raises `evenroll.Interrupted` with both in `rollouts`.
    warned   what is known beforehand and belongs into the results' warnings
    """
    call = written_call("evenroll.difference", difference, locals())
    if whole_number("episodes", episodes, 1) < FEWEST:
        raise SpecError(f"a difference needs at least {FEWEST} episodes, not {episodes}")
    there = [0 if data is None else data.episodes for data in initial]
    if max(there) > episodes:
        raise SpecError(f"the data has {max(there)} episodes already, more than the {episodes} that are to be compared")
    look = Look(get_estimator(DEFAULT_ESTIMATOR))
    settings: dict[str, Any] = {"gamma": gamma, "seed": seed, "horizon": horizon, "deterministic": deterministic}
    settings |= {"in_rounds": True, "warned": warned, "resets": resets}
    policies = zip((first, second), initial, strict=True)
    sources = [EnvironmentSource(env, policy, sampler, initial=data, **settings) for policy, data in policies]
    results: list[Evaluation] = []
    try:
        for source, known in zip(sources, there, strict=True):
            results.append(evaluate_source(source, look, Budget(episodes - known, None, None), confidence, progress))
        return replace(_compared(sources, [source.rollouts() for source in sources], results, confidence), _call=call)
    except KeyboardInterrupt:
        raise _interrupted(sources, look, confidence) from None
    except Exception as error:
        with_data(error, *sources)
        raise
    finally:
        for source in sources:
            source.close()


def _compared(
    sources: Sequence[Source], data: Sequence[Rollouts], results: Sequence[Evaluation], confidence: float
) -> Difference:
    first, second = results
    with single_threaded_blas(), np.errstate(over="ignore", invalid="ignore"):  # what overflows is told in words
        value, interval = _estimated(sources, data, confidence)
    alone = (
        None if first.half_width is None or second.half_width is None else math.hypot(first.half_width, second.half_width)
    )
    if first.runs_away or second.runs_away:  # neither value is to be trusted, and so their difference is not
        which = "the first policy" if first.runs_away else "the second policy"
        interval = NoInterval(f"{which}: {(first if first.runs_away else second).why}")
    if isinstance(interval, NoInterval):
        return Difference(value, None, None, confidence, interval.why, None, alone, first, second)
    return Difference(value, interval.low, interval.high, confidence, None, interval.note, alone, first, second)


def _interrupted(sources: Sequence[Source], look: Look, confidence: float) -> Interrupted:
    """The error to raise in place of a KeyboardInterrupt. It compares the starts that both policies have met."""
    whole = [source.rollouts(unfinished=False) for source in sources]
    shared = min(data.episodes for data in whole)
    message = f"interrupted after {shared:,} episodes that both policies have finished (error.rollouts, error.result)"

    def find() -> Difference | Evaluation | None:
        if shared >= FEWEST:
            data = [_first_episodes(data, shared) for data in whole]
            results = [result_so_far(source, part, look, confidence) for source, part in zip(sources, data, strict=True)]
            if results[0] is not None and results[1] is not None:
                return replace(_compared(sources, data, [results[0], results[1]], confidence), interrupted=True)
        return result_so_far(sources[0], whole[0], look, confidence)

    return Interrupted(message, rollouts=tuple(whole), find=find)


def _first_episodes(data: Rollouts, n: int) -> Rollouts:
    return replace(data, initial_episodes=0, initial_steps=0).prefix(int(data.ends[n - 1]))


def _estimated(
    sources: Sequence[Source], data: Sequence[Rollouts], confidence: float
) -> tuple[float, Interval | NoInterval]:
    gaps = data[0].returns - data[1].returns
    n = len(gaps)
    if float(np.ptp(gaps)) == 0.0:
        rare = other_outcomes(n, confidence)
        return float(gaps[0]), NoInterval(
            f"all {n} differences were equal; one that was not seen may have a probability of up to {rare:.2g}, and how "
            "large it would be is not known"
        )
    ours, theirs = ([] if s.policy is None else action_parts(d, s.policy) for s, d in zip(sources, data, strict=True))
    fit = regress(gaps, ours + [part.negative() for part in theirs], starts_of(data[0]))
    made = balanced_interval(fit, gaps, fit.value, confidence, estimator="score")
    unfit = beyond_floats(made, gaps)
    if unfit is not None:
        return fit.value, NoInterval(unfit)
    made = as_far_as_seen(made, gaps, confidence) if made.exact else made
    return fit.value, around(made, rare_differences(gaps, confidence))
