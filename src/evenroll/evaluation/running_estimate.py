"""How an evaluation came about: the running estimate and its interval, beside the interval of on-policy sampling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import EvenrollError
from evenroll.evaluation.noise import NoiseBudget
from evenroll.evaluation.noise_picture import draw
from evenroll.intervals.independent import Interval, NoInterval, student_t

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 24  # of the curve; a choice
FIRST = 10  # episodes at the first point; a choice


class Sees(Protocol):
    """Data, and how it is looked at (`evaluation.looking.Seen`)."""

    @property
    def data(self) -> Rollouts: ...

    def look(self, look: Any, confidence: float) -> tuple[float, Interval | NoInterval]: ...


@dataclass(frozen=True)
class Running:
    """The estimate at m numbers of episodes; every array is [m].

    episodes   how many of the first episodes each point uses
    value      the estimate from those episodes
    low, high  the interval, nan where there is none
    on_policy  the half-width that as many independent episodes would have
    confidence  that of the intervals
    """

    episodes: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    on_policy: np.ndarray
    confidence: float = 0.95


def enough_to_draw(episodes: int) -> None:
    """Raise unless a picture can be drawn of so many episodes."""
    if episodes < FIRST:
        raise EvenrollError(f"a picture needs at least {FIRST} episodes, not {episodes}")


def running(seen: Sees, look: Any, confidence: float = 0.95) -> Running:
    """The estimate, looked at as `look` says, at up to POINTS numbers of episodes, evenly spaced in their logarithm."""
    data = seen.data
    enough_to_draw(data.episodes)
    counts = np.unique(np.geomspace(FIRST, data.episodes, POINTS).astype(int))
    rows = []
    for n in counts:
        part = _first_episodes(data, int(n))
        value, interval = replace(seen, data=part).look(look, confidence)  # type: ignore[type-var]
        low, high = (interval.low, interval.high) if isinstance(interval, Interval) else (np.nan, np.nan)
        a, b = student_t(part.returns, confidence)
        rows.append((value, low, high, (b - a) / 2))
    value, low, high, on_policy = np.array(rows).T
    return Running(counts, value, low, high, on_policy, confidence)


def _first_episodes(data: Rollouts, n: int) -> Rollouts:
    new = max(n - data.initial_episodes, 0)
    part = data.prefix(int(data.ends[data.initial_episodes + new - 1]) - data.initial_steps if new else 0)
    return part if part.episodes == n else replace(part, initial_episodes=min(data.initial_episodes, part.episodes))


def draw_running(run: Running, title: str, noise: NoiseBudget | None = None) -> Figure:
    """The running estimate and, below it, where the noise comes from."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if noise is None:
        fig, axis = plt.subplots(figsize=(7, 4.4), layout="constrained")
    else:
        fig, (axis, strip) = plt.subplots(2, figsize=(7, 5.4), layout="constrained", height_ratios=(12, 1))
        draw(strip, noise)
    final = run.value[-1]
    n = np.geomspace(run.episodes[0], run.episodes[-1], 200)
    wide = run.on_policy[-1] * np.sqrt(run.episodes[-1] / n)
    level, plain = f"{100 * run.confidence:g} %", "of as many plain on-policy episodes"
    axis.fill_between(n, final - wide, final + wide, color="0.88", lw=0, label=f"{level} {plain}")
    axis.fill_between(run.episodes, run.low, run.high, color="#c44e52", alpha=0.25, lw=0, label=f"{level} interval")
    axis.plot(run.episodes, run.value, color="#c44e52", lw=1.8, marker="o", ms=3.5, label="running estimate")
    axis.set_xscale("log")
    shown = sorted({int(run.episodes[0]), int(run.episodes[-1]), *(10 ** np.arange(1, 7))})
    axis.set_xticks([x for x in shown if run.episodes[0] <= x <= run.episodes[-1]], minor=False)
    axis.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    axis.minorticks_off()
    axis.set_xlabel("episodes")
    axis.set_ylabel("value")
    axis.set_title(title, fontsize=11)
    axis.grid(True, color="0.93")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    return fig
