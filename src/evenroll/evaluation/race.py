"""The best of several policies: all run on the same starts, and whoever is shown to be worse drops out.

Let b be the best policy. After n rounds every policy that is left is compared with the leader, the one whose estimate is
highest, by a one-sided repeated interval of level α/(K − 1) (intervals/sequential.py). A mistake needs one of K − 1 events:
that b is shown to be worse than some other policy by more than it is. So with probability 1 − α at least, b never drops
out, and a leader that all others are shown to be at most `margin` above is at most `margin` worse than b.

The leader of a race was lucky more often than not, and its estimate tells of that luck (the winner's curse). So the winner's
value comes from fresh episodes, from starts that were not in the race. They are on-policy: with few episodes a policy that
seldom fails fails a little more seldom when its actions are balanced (docs/experiments-deciding.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenroll.adapters.normalization import Normalization
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import DataError, Interrupted, SpecError
from evenroll.estimators import get_estimator
from evenroll.evaluation.evaluate import DEFAULT_ESTIMATOR, Budget, Progress, evaluate_source
from evenroll.evaluation.interruption import with_data
from evenroll.evaluation.looking import Look
from evenroll.evaluation.pairs import Side, compared, side_of, sources_for, whole_groups
from evenroll.evaluation.presenting import Presented, of_plain, page_piece
from evenroll.evaluation.race_page import race_page
from evenroll.evaluation.race_picture import draw_race
from evenroll.evaluation.result import Evaluation
from evenroll.evaluation.sources import Source
from evenroll.files.figures import save_figure
from evenroll.files.pages import save_page
from evenroll.intervals.independent import NoInterval
from evenroll.intervals.sequential import FIRST, for_rare_failures, levels, looks
from evenroll.samplers.table import SamplerLike
from evenroll.text.calls import written_call
from evenroll.text.numbers import with_interval
from evenroll.text.specs import whole_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROWTH = 1.15  # rounds at a look over those at the look before: each look costs as much as K evaluations; a choice
FEWEST_FRESH, FRESH_SHARE = 10, 0.5  # fresh episodes of the winner: half of its rounds, at least 10; a choice
OTHER_STARTS = 1_000_003  # is added to the seed, so that the winner's fresh starts were not in the race


@dataclass(frozen=True)
class Runner:
    """One policy of a race.

    name           what the user calls it
    value          the estimate after its last round
    low, high      how much better or worse than the leader it was at its last look: an interval that all looks of all
                   policies share. None for the leader itself, and where there is none.
    episodes       how many episodes it ran
    steps          how many steps that took
    out            after how many rounds it was shown to be worse; None if it never was
    """

    name: str
    value: float
    low: float | None
    high: float | None
    episodes: int
    steps: int
    out: int | None


@dataclass(frozen=True)
class Race(Presented):
    """Which of several policies is the best.

    value        the winner's value from fresh episodes; if there are none, the estimate of the race, which is too high
                 more often than too low
    winner       its name; if nothing was decided, the name of the leader
    decided      whether every other policy was shown to be worse, or at most `margin` better
    runners      all policies, the winner first, then those that were left, then the others, the last to drop out first
    fresh        the winner's evaluation on fresh episodes; None if none were asked for
    margin       how much worse than the best the winner may be
    confidence   with this probability at least a winner that was decided is at most the margin worse than the best
    rounds       how many episodes the winner ran in the race
    most         how many it could have been at most
    history      after each look the rounds, and the estimates of those that were left, by name
    interrupted  whether the race was interrupted, so that the policies that are left could have run longer
    """

    value: float
    winner: str
    decided: bool
    runners: tuple[Runner, ...]
    fresh: Evaluation | None
    margin: float
    confidence: float
    rounds: int
    most: int
    quantity: str
    history: tuple[tuple[int, dict[str, float]], ...] = ()
    interrupted: bool = False
    _call: str | None = field(default=None, repr=False, compare=False)  # the Python line that made it, for `report`

    @property
    def episodes(self) -> int:
        """How many episodes were run in all, the fresh ones included."""
        return sum(runner.episodes for runner in self.runners) + (0 if self.fresh is None else self.fresh.episodes)

    @property
    def steps(self) -> int:
        """How many steps were taken in all, the fresh ones included."""
        return sum(runner.steps for runner in self.runners) + (0 if self.fresh is None else self.fresh.steps)

    def state(self, runner: Runner) -> str:
        """How a policy fared, in a word or three."""
        if runner.name == self.winner:
            return "best" if self.decided else "leads"
        return "left" if runner.out is None else f"out at {runner.out}"

    @classmethod
    def from_json(cls, told: Mapping[str, Any] | str) -> Race:
        """The result of which `to_json` has told."""
        return of_plain(
            cls, told, fresh=Evaluation.from_json, runners=lambda rows: tuple(Runner(**row) for row in rows),
            history=lambda rows: tuple((int(n), dict(values)) for n, values in rows),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        told = super().to_json()
        told["runners"] = [vars(runner).copy() for runner in self.runners]
        told["history"] = [[n, values] for n, values in self.history]
        return told

    def plot(self, path: str | Path | None = None) -> Figure:
        """The race: every policy's estimate after each look, until it drops out."""
        if not self.history:
            raise DataError("this race has no looks to draw")
        figure = draw_race(self.history, [r.name for r in self.runners], self.winner, str(self))
        if path is not None:
            save_figure(figure, path)
        return figure

    def report(self, path: str | Path, command: str | None = None) -> Path:
        """Write the race as one web page that needs nothing else (`.html`). `command` is what repeats it, if it was one."""
        save_page(race_page(self, command), path)
        return Path(path)

    def _repr_html_(self) -> str:
        return page_piece(str(self), self.in_words(), None)

    def __str__(self) -> str:
        equal = self.rounds * len(self.runners)
        state = "is the best" if self.decided else "leads, undecided"
        fresh = "" if self.fresh is None else f", and {self.fresh.episodes} fresh ones of its own"
        ran = sum(runner.episodes for runner in self.runners)
        return f"{self.winner} {state}, {ran} episodes ({equal} if all had run as long as it did){fresh}"

    def in_words(self) -> str:
        left = [runner.name for runner in self.runners[1:] if runner.out is None]
        beyond = f" by more than {self.margin:g}" if self.margin else ""
        if self.decided:
            text = f"{self.winner} is the best of {len(self.runners)}: no other is better{beyond}"
        else:
            text = f"After {self.rounds} rounds it is open which is best: {self.winner} leads, {_listed(left)} may be better"
        if self.fresh is not None:
            worth = with_interval(self.fresh.value, self.fresh.low, self.fresh.high)
            text += f". On {self.fresh.episodes} fresh episodes it is worth {worth}"
        else:
            text += ". Its value is that of the race, in which it was the luckiest too, so expect a little less"
        return text + ("; it was interrupted." if self.interrupted else ".")


def best(
    env: Any,
    policies: Mapping[str, Any] | Sequence[Any],
    *,
    most: int = 100,
    margin: float = 0.0,
    fresh: int | None = None,
    quantity: str = "return",
    sampler: SamplerLike = "auto",
    gamma: float | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    horizon: int | None = None,
    deterministic: bool = False,
    resets: int | None = None,
    workers: int | None = None,
    executor: str | None = None,
    spool: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    warned: tuple[str, ...] = (),
    normalization: Normalization | None = None,
) -> Race:
    """The best of several policies on one environment or domain. Those that are shown to be worse drop out.

    policies  by name, or in a row, which are then named 1, 2, 3 …
    most      how many episodes a policy runs at most
    margin    how much worse than the best the winner may be. Policies that are equal are never told apart without one.
    fresh     how many fresh on-policy episodes the winner's value comes from: by default half as many as it ran; 0 for none
    The other arguments are those of `difference`.
    """
    call = written_call("evenroll.best", best, locals())
    named = dict(policies) if isinstance(policies, Mapping) else {str(i + 1): p for i, p in enumerate(policies)}
    if len(named) < 2:
        raise SpecError("a race needs at least two policies")
    if whole_number("most", most, 1) < FIRST:
        raise SpecError(f"a race needs at least {FIRST} rounds: most={most} is too few")
    if not np.isfinite(margin) or margin < 0.0:
        raise SpecError(f"margin must be 0 or a number above it, not {margin}")
    fresh = None if fresh is None else whole_number("fresh", fresh, 0)
    settings: dict[str, Any] = {"gamma": gamma, "horizon": horizon, "deterministic": deterministic, "resets": resets}
    settings |= {"warned": warned, "workers": workers, "executor": executor, "normalization": normalization}
    no_data = [None] * len(named)
    sources = sources_for(env, list(named.values()), sampler, no_data, seed=seed, spool=spool, **settings)
    race = _Running(dict(zip(named, sources, strict=True)), most, margin, confidence, quantity, progress)
    try:
        with single_threaded_blas():
            race.run()
        result = replace(race.result(), _call=call)
    except KeyboardInterrupt:
        data = tuple(source.rollouts(unfinished=False) for source in sources)
        message = f"interrupted after {race.rounds} rounds (error.rollouts, error.result)"

        def find() -> Race | None:
            return replace(race.result(), interrupted=True) if race.history else None

        raise Interrupted(message, rollouts=data, find=find) from None
    except Exception as error:
        with_data(error, *sources)
        raise
    finally:
        for source in sources:
            source.close()
    count = max(FEWEST_FRESH, int(FRESH_SHARE * result.rounds)) if fresh is None else fresh
    if count == 0:
        return result
    place = None if spool is None else Path(spool) / "fresh"
    alone = sources_for(
        env, [named[result.winner]], "os", [None], seed=seed + OTHER_STARTS, spool=place, **settings
    )[0]  # fmt: skip
    try:
        found = evaluate_source(alone, Look(get_estimator(DEFAULT_ESTIMATOR)), Budget(count, None, None), confidence)
    finally:
        alone.close()
    value = found.value if quantity == "return" else found.quantities[quantity].value
    return replace(result, fresh=found, value=value)


class _Running:
    """A race under way."""

    def __init__(
        self, sources: Mapping[str, Source], most: int, margin: float, confidence: float, quantity: str,
        progress: Callable[[Progress], None] | None,
    ) -> None:  # fmt: skip
        self.sources, self.most, self.margin, self.confidence, self.quantity = sources, most, margin, confidence, quantity
        self.when = looks(most, whole_groups(next(iter(sources.values()))), GROWTH)
        one_sided = (1.0 - confidence) / (len(sources) - 1)
        self.levels = levels(self.when, 2.0 * one_sided)
        self.left = list(sources)
        self.runners: dict[str, Runner] = {}
        self.history: list[tuple[int, dict[str, float]]] = []
        self.leader, self.decided, self.rounds = self.left[0], False, 0
        self.progress, self.started = progress, time.perf_counter()

    def run(self) -> None:
        for n, level in zip(self.when, self.levels, strict=True):
            for name in self.left:
                for _ in self.sources[name].collect(n, None, at_once=True):
                    pass
            self.rounds = n
            self._look(n, level)
            if self.progress is not None:
                steps, seconds = sum(s.steps for s in self.sources.values()), time.perf_counter() - self.started
                self.progress(Progress(n, self.most, steps, seconds, None))
            if self.decided:
                return

    def _look(self, n: int, level: float) -> None:
        sides = {name: side_of(self.sources[name], self.quantity, n) for name in self.left}
        against = {name: compared(side, sides[self.leader], 1.0 - level) for name, side in sides.items()
                   if name != self.leader}  # fmt: skip
        ahead = max(against, key=lambda name: against[name].value)
        if against[ahead].value > 0.0:  # another one leads now, and the others are compared with it
            self.leader = ahead
            against = {name: compared(side, sides[ahead], 1.0 - level) for name, side in sides.items() if name != ahead}
        self._keep(self.leader, sides[self.leader], 0.0, None, n, None)
        base = self.runners[self.leader].value
        all_shown = True
        for name, found in against.items():
            interval = found.interval
            bounds = None if isinstance(interval, NoInterval) else for_rare_failures(interval, found.value, n)
            if bounds is not None and _strays(sides[name], sides[self.leader]):
                bounds = None
            worse = bounds is not None and bounds.high < 0.0
            all_shown &= bounds is not None and bounds.high <= self.margin
            ends = None if bounds is None else (bounds.low, bounds.high)
            self._keep(name, sides[name], found.value, ends, n, n if worse else None, base)
        self.history.append((n, {name: self.runners[name].value for name in self.left}))
        self.left = [name for name in self.left if self.runners[name].out is None]
        self.decided = all_shown

    def _keep(
        self, name: str, side: Side, gap: float, ends: tuple[float, float] | None, n: int, out: int | None,
        base: float | None = None,
    ) -> None:  # fmt: skip
        value = float(side.values.mean()) if base is None else base + gap
        low, high = (None, None) if ends is None else ends
        self.runners[name] = Runner(name, value, low, high, n, self.sources[name].steps, out)

    def result(self) -> Race:
        def place(runner: Runner) -> tuple[bool, int, float]:
            return runner.name != self.leader, -(runner.out or self.most + 1), -runner.value

        runners = tuple(sorted(self.runners.values(), key=place))
        return Race(
            runners[0].value, self.leader, self.decided, runners, None, self.margin, self.confidence, self.rounds,
            self.most, self.quantity, tuple(self.history),
        )  # fmt: skip


def _strays(*sides: Side) -> bool:
    """Whether the guard barks at one of them, so that their difference is not to be trusted."""
    return any(side.away() is not None for side in sides)


def _listed(names: Sequence[str]) -> str:
    return " or ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), *names[-1:]]) or "another"
